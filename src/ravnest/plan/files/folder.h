// Folders and the moves within them, with failures as Status and what is needed to survive a crash.
//
// Each call says on failure what it tried on which path; the codes are those of base/file.h.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/status.h"

namespace ravnest::plan {

// Makes one folder. kInvalid where something of that name exists.
Status make_folder(const std::filesystem::path& path, unsigned mode = 0777);

// The names in a folder, in order.
Result<std::vector<std::string>> names_in(const std::filesystem::path& folder);

// Whether anything has that name, a link that leads nowhere included.
bool is_there(const std::filesystem::path& path);

// Whether it is a folder, or a link to one.
bool is_folder(const std::filesystem::path& path);

// Gives `from` the name `to`, replacing a file of that name.
Status move_to(const std::filesystem::path& from, const std::filesystem::path& to);

// Swaps what two names stand for, in one step. kUnsupported, and nothing done, where the file system cannot:
// many cannot at all, those of containers not for a folder that came with the image.
Status exchange(const std::filesystem::path& first, const std::filesystem::path& second);

// Removes a file, a link or a folder with all it holds; links are not followed. That nothing was there is no failure.
Status remove_tree(const std::filesystem::path& path);

// Brings a folder's list of names to the disk; where the file system cannot, it is taken to need no telling.
Status sync_folder(const std::filesystem::path& path);

// The same for every file and folder at and below `path`. kInvalid where there is anything else, such as a link.
Status sync_tree(const std::filesystem::path& path);

// The right to change a folder, among the processes that ask for it; lost with the object or the process.
//
// File systems that know no locks on folders (some network ones) grant it to everybody.
class FolderLock {
 public:
  // Waits for up to `patience`. kUnavailable, "... is in use", where another still has it then.
  static Result<FolderLock> take(const std::filesystem::path& folder,
                                 std::chrono::milliseconds patience = std::chrono::milliseconds(0));

  // Whether another has it now. False where that can't be told.
  static bool is_taken(const std::filesystem::path& folder);

 private:
  explicit FolderLock(Descriptor folder) : folder_(std::move(folder)) {}

  Descriptor folder_;
};

}  // namespace ravnest::plan
