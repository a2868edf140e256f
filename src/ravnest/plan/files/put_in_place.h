// The second half of a replacement: from `.plan.ready` to a plan in place. See replacement.h for the folders.
//
// put_in_place and clear_old may be stopped at any point and called again. The caller holds the lock on node_data.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/plan/files/replacement.h"

namespace ravnest::plan {

inline constexpr std::string_view kReady = ".plan.ready";
inline constexpr std::string_view kOld = ".plan.old";
inline constexpr std::string_view kNewEntries = "new";
inline constexpr std::string_view kOldEntries = "old";
inline constexpr std::string_view kEntryList = "entries.json";
inline constexpr std::string_view kNewMark = ".plan.new";

// Lists the entries that lie in `temporary`/new and marks them as those of this replacement.
Status list_and_mark(const std::filesystem::path& temporary, const std::set<std::string>& entries);

// The plan entries in a folder: the names that a plan owns, as far as they are of the kind that a plan makes.
Result<std::set<std::string>> plan_entries(const std::filesystem::path& folder);

// Whether `entry` is a folder in a plan, or a file.
bool is_folder_entry(std::string_view entry);

// Moves the entries of `.plan.ready` into place and those that the new plan lacks out of the way; ends by renaming
// `.plan.ready` to `.plan.old`.
Status put_in_place(const std::filesystem::path& node_data, const OnStep& on_step);

// Removes the marks from the entries in place, then `.plan.old`.
Status clear_old(const std::filesystem::path& node_data, const OnStep& on_step);

}  // namespace ravnest::plan
