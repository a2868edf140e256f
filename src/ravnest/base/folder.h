// Folders that are on the disk when they are said to be.
//
// Codes as in file.h.
#pragma once

#include <filesystem>

#include "ravnest/base/status.h"

namespace ravnest {

// Brings what was created, renamed or removed in the folder to the disk.
Status sync_folder(const std::filesystem::path& folder);

// Makes the folders that are missing, on the disk by the time this returns. Someone else may make them meanwhile.
Status make_folders(const std::filesystem::path& folder);

}  // namespace ravnest
