// A new plan takes the place of an earlier one in `node_data/`, wholly or not at all.
//
// A plan there consists of the folders `cluster_N`, `nodes` and `authority` and the file `plan.json`; nothing else in
// node_data is ever touched. A crash, a full disk, a read-only folder or Ctrl-C at any moment leaves the earlier plan
// or the new one, never a mixture:
//
//   .plan.XXXXXXXX.tmp/   being filled. What a crash leaves of it is removed by the next `begin`
//   .plan.ready/          the commit: renamed to this in one step once all of it is on the disk. From here on the new
//   plan
//                         is the plan, and whoever comes next carries on putting it in place
//   .plan.old/            the same folder once all entries are in place; now holds the earlier plan, being removed
//
// Inside: `new/` with the entries, `old/` for those that the new plan does not have, `entries.json` with the names. A
// folder and its successor swap names in one step where the file system can, so the entry is never missing; which of
// the two a name stands for is told by a small file `.plan.new` in the successor, removed at the end.
// Readers call `finish_replacement` first. One writer at a time, by a lock on the folder node_data.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/plan/files/folder.h"

namespace ravnest::plan {

// Called after each step with the step's name. For tests that stop a process at every one of them.
using OnStep = std::function<void(std::string_view step)>;

// Whether `name` is one of the names that a plan owns in node_data.
bool is_plan_entry(std::string_view name);

// One replacement: fill `folder()` with the new plan's entries, then `commit`. Move-only, not thread-safe.
class Replacement {
 public:
  // Makes node_data if it is missing, carries on an interrupted replacement, clears away what crashed ones left.
  // kUnavailable, "another plan is being written to ...", where another process is at it.
  static Result<Replacement> begin(const std::filesystem::path& node_data, OnStep on_step = {});

  Replacement(Replacement&& other) noexcept;
  Replacement& operator=(Replacement&& other) noexcept;
  ~Replacement();  // without a commit nothing has happened: removes the temporary folder

  // On the same file system as node_data. Its entries will get the names they have here.
  std::filesystem::path folder() const;

  // To be called once. Failure before the commit point leaves the earlier plan as it was. Failure after it (the message
  // says so) is one of the disk's: the new plan is in force, and finish_replacement tries again to put it in place.
  // kInvalid where `folder()` holds something that is no plan entry, or where a plan entry's name is taken in node_data
  // by something of another kind (a file `nodes`).
  Status commit();

 private:
  Replacement(std::filesystem::path node_data, FolderLock lock, OnStep on_step);
  void discard() noexcept;

  std::filesystem::path node_data_;
  std::optional<FolderLock> lock_;  // none once moved from, or done
  OnStep on_step_;
  std::filesystem::path temporary_;  // empty once committed
};

// Whether a committed plan is not yet all in place, so that entries of two plans may lie side by side.
bool is_replacement_pending(const std::filesystem::path& node_data);

inline constexpr std::chrono::milliseconds kReplacementPatience(5000);

// Carries an interrupted replacement to its end. To be called before a plan is read; does nothing, and needs no right
// to write, where none is pending. Where a writer is just at it, waits for up to `patience`, then kUnavailable.
Status finish_replacement(const std::filesystem::path& node_data,
                          std::chrono::milliseconds patience = kReplacementPatience);

}  // namespace ravnest::plan
