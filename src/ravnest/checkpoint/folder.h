// A run's folder of checkpoints: what is in it, and which of them stay.
//
//   checkpoints/update_000000080/, checkpoints/update_000000120/, ...
//
// A checkpoint is a folder with a manifest; what has none is invisible to readers. A checkpoint goes manifest first, so
// that a kill in the middle leaves none that is half there. Several holders may write into one folder, on one machine
// or on a file system that machines share, or each into its own: nobody removes a file that it has not written itself,
// or that a manifest of its own run does not name. Free functions; safe from any thread and any process at once: what
// another one removes meanwhile is gone, not a failure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/manifest.h"

namespace ravnest::checkpoint {

struct Checkpoint {
  std::filesystem::path folder;
  Manifest manifest;
};

// A folder whose manifest cannot be read, and why.
struct Unreadable {
  std::filesystem::path folder;
  Status why;
};

struct Listing {
  std::vector<Checkpoint> complete;    // the newest first
  std::vector<Unreadable> unreadable;  // the same; kUnsupported among them for one of a later version
};

// ROOT/update_000000120
std::filesystem::path checkpoint_folder(const std::filesystem::path& root, std::uint64_t updates);

// A root that is not there has none. Fails where the folder cannot be read.
Result<Listing> list_checkpoints(const std::filesystem::path& root);

// The one that `which` means: "newest", "last" or "" (the newest), "best" (of the highest accuracy; of several the
// newest), an update ("120"), a folder's name ("update_000000120"), or a path to a checkpoint's folder or to another
// run's folder of checkpoints, whose newest it is then. kNotFound with what there is instead; an unreadable manifest is
// passed over for "newest" and "best" alone.
Result<Checkpoint> find_checkpoint(const std::filesystem::path& root, std::string_view which);
// The same among those of a list, paths left out; `root` is what messages call the place. Nothing where `which` is none
// of these words, numbers and names.
std::optional<Result<Checkpoint>> find_listed(const Listing& listing, const std::string& root, std::string_view which);

// What find_checkpoint takes, of words in which someone says whether and from where a run goes on: the newest for "1"
// and "true", and "" for "0" and "false", with which it begins anew.
std::string resume_word(const std::string& said);

// The one of the highest accuracy, of several the newest; null where none has any.
const Checkpoint* best_of(const std::vector<Checkpoint>& newest_first);

// Which of the run's checkpoints stay. The newest always does.
struct Retention {
  std::uint64_t keep = 2;        // the newest ones; 0: all
  std::uint64_t keep_every = 0;  // and those of updates that are multiples of this; 0: none
  bool best = false;             // and the one of the highest accuracy
};

// Which of these go, the oldest first. Pure; of other runs none does.
std::vector<Checkpoint> outdated(const std::vector<Checkpoint>& newest_first, const std::string& run,
                                 const Retention& retention);

// To be called by every holder before the run's first checkpoint, while nobody of the run writes. Makes the folder and
// tries whether it can be written to. kInvalid, with both runs and what to do, where it has checkpoints of another run
// than `run` (a resumed run has the id of the one that it goes on from). Removes what killed writers have left, as
// remove_stale does.
Status begin_run(const std::filesystem::path& root, const std::string& run, const std::string& holder);

// Whether a run with this id may write among these; as begin_run has it.
Status check_one_run(const Listing& listing, const std::string& root, const std::string& run);

// After a resume from `updates`: the checkpoints of the run that are newer (torn ones, say, that were passed over) go,
// so that the run's own later ones take their places.
Status remove_newer(const std::filesystem::path& root, const std::string& run, std::uint64_t updates);

// Removes what has no manifest and never will: parts that `holder` (left empty: anybody) wrote for `run`, and temporary
// files of writers that are gone, in folders of updates below `before`, and then the folders that are empty. What
// cannot be removed stays, without a word.
void remove_stale(const std::filesystem::path& root, const std::string& run, const std::string& holder,
                  std::uint64_t before);

// To be called after write_manifest: removes outdated checkpoints, then what is stale below the newest. The first
// failure, after having tried all.
Status prune(const std::filesystem::path& root, const std::string& run, const std::string& holder,
             const Retention& retention);

// Removes one: the manifest first, then the index and all parts that it names and that are here, then the folder unless
// something else is in it.
Status remove_checkpoint(const Checkpoint& checkpoint);

}  // namespace ravnest::checkpoint
