// Checkpoints as `ravnest checkpoint` shows them, to people and as JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/folder.h"

namespace ravnest::cli {

// A table, the newest first, and a line for each that cannot be read.
std::string listing_words(const checkpoint::Listing& listing, const std::filesystem::path& folder);
std::string listing_json(const checkpoint::Listing& listing);

std::string checkpoint_words(const checkpoint::Checkpoint& checkpoint);
// The manifest, with the folder.
std::string checkpoint_json(const checkpoint::Checkpoint& checkpoint);

// "2 parts, 1.20 MB": of those parts, or of all where none is named.
std::string size_words(const checkpoint::Checkpoint& checkpoint, const std::set<std::string>& parts);

// kNotFound, with what there is, for a part that the checkpoint does not have.
Status check_part_names(const checkpoint::Checkpoint& checkpoint, const std::vector<std::string>& parts);

}  // namespace ravnest::cli
