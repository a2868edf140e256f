#include "ravnest/checkpoint/folder.h"

#include <algorithm>
#include <limits>
#include <set>
#include <system_error>

#include "ravnest/base/file.h"
#include "ravnest/base/folder.h"
#include "ravnest/base/printable.h"
#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/part_file.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;

struct UpdateFolder {
  fs::path path;
  std::uint64_t updates = 0;
};

// Those that are called like a checkpoint's, with or without a manifest, the newest first.
Result<std::vector<UpdateFolder>> update_folders(const fs::path& root) {
  std::vector<UpdateFolder> folders;
  std::error_code failure;
  for (fs::directory_iterator entry(root, failure), end; !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    const auto updates = updates_of(entry->path().filename().string());
    if (updates && entry->is_directory(ignored)) folders.push_back({entry->path(), *updates});
  }
  if (failure && failure != std::errc::no_such_file_or_directory)
    return system_failure("read the folder", root, failure.value());
  std::ranges::sort(folders, std::ranges::greater(), &UpdateFolder::updates);
  return folders;
}

bool has_manifest(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(folder / kManifestFile, ignored));
}

Status remove_file(const fs::path& path) {
  std::error_code failure;
  fs::remove(path, failure);
  return failure ? system_failure("remove", path, failure.value()) : Status();
}

// What killed writers have left of any file of the folder, whose name stands within the temporary one's.
void remove_temporary_files(const fs::path& folder) {
  std::set<fs::path> unfinished;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    constexpr std::size_t kBehind = std::string_view(".XXXXXXXX.tmp").size();
    if (name.starts_with('.') && name.ends_with(".tmp") && name.size() > kBehind + 1)
      unfinished.insert(folder / name.substr(1, name.size() - 1 - kBehind));
  }
  for (const fs::path& path : unfinished) remove_unfinished(path);
}

void remove_own_parts(const fs::path& folder, const std::string& run, const std::string& holder) {
  std::vector<fs::path> parts;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    if (is_part_file(entry->path().filename().string())) parts.push_back(entry->path());
  }
  for (const fs::path& part : parts) {
    const Result<PartOwner> owner = read_part_owner(part);
    if (owner.ok() && owner->run == run && (holder.empty() || owner->holder == holder))
      static_cast<void>(remove_file(part));
  }
}

// Only where nothing but the index is left in it.
void remove_if_empty(const fs::path& folder) {
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    if (entry->path().filename() != kIndexFile) return;
  }
  if (failure) return;
  fs::remove(folder / kIndexFile, failure);
  fs::remove(folder, failure);
}

bool has_part_of(const fs::path& folder, const std::string& run) {
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    if (!is_part_file(entry->path().filename().string())) continue;
    const Result<PartOwner> owner = read_part_owner(entry->path());
    if (owner.ok() && owner->run == run) return true;
  }
  return false;
}

// Of whatever run its manifest was, that is lost: its parts tell.
Status remove_damaged(const fs::path& folder, const std::string& run) {
  if (!has_part_of(folder, run)) return {};
  if (Status status = remove_file(folder / kManifestFile); !status.ok()) return status;
  remove_temporary_files(folder);
  remove_own_parts(folder, run, "");
  remove_if_empty(folder);
  return {};
}

}  // namespace

fs::path checkpoint_folder(const fs::path& root, std::uint64_t updates) { return root / folder_name(updates); }

Result<Listing> list_checkpoints(const fs::path& root) {
  const Result<std::vector<UpdateFolder>> folders = update_folders(root);
  if (!folders.ok()) return folders.status();
  Listing listing;
  for (const UpdateFolder& each : *folders) {
    if (!has_manifest(each.path)) continue;
    Result<Manifest> manifest = read_manifest(each.path);
    if (manifest.status().code() == Code::kNotFound) continue;  // removed meanwhile
    if (manifest.ok() && manifest->updates != each.updates)
      manifest = corrupt((each.path / kManifestFile).string(), ": it is of update ", manifest->updates);
    if (manifest.ok())
      listing.complete.push_back({each.path, std::move(*manifest)});
    else
      listing.unreadable.push_back({each.path, manifest.status()});
  }
  return listing;
}

const Checkpoint* best_of(const std::vector<Checkpoint>& newest_first) {
  const Checkpoint* best = nullptr;
  for (const Checkpoint& each : newest_first) {
    if (each.manifest.accuracy && (best == nullptr || *each.manifest.accuracy > *best->manifest.accuracy)) best = &each;
  }
  return best;
}

std::vector<Checkpoint> outdated(const std::vector<Checkpoint>& newest_first, const std::string& run,
                                 const Retention& retention) {
  std::vector<Checkpoint> own;
  for (const Checkpoint& each : newest_first) {
    if (each.manifest.run == run) own.push_back(each);
  }
  const Checkpoint* best = retention.best ? best_of(own) : nullptr;
  const std::uint64_t newest = retention.keep == 0 ? std::numeric_limits<std::uint64_t>::max() : retention.keep;
  std::vector<Checkpoint> old;
  for (std::size_t i = own.size(); i-- > 0;) {
    const bool is_multiple = retention.keep_every > 0 && own[i].manifest.updates % retention.keep_every == 0;
    if (i >= newest && !is_multiple && &own[i] != best) old.push_back(own[i]);
  }
  return old;
}

Status check_one_run(const Listing& listing, const std::string& root, const std::string& run) {
  for (const Checkpoint& each : listing.complete) {
    if (each.manifest.run != run)
      return invalid(root, " has checkpoints of another run: ", each.folder.filename().string(), " is of run ",
                     printable(each.manifest.run), ", and this is run ", printable(run),
                     "; resume from them, or give this run a folder of its own");
  }
  for (const Unreadable& each : listing.unreadable) {
    if (each.why.code() == Code::kUnsupported) return each.why;
  }
  return {};
}

Status begin_run(const fs::path& root, const std::string& run, const std::string& holder) {
  if (Status status = make_folders(root); !status.ok()) return status;
  // Not committed: it only shows whether files can be made here.
  if (Status status = AtomicFile::create(root / "checkpoint").status(); !status.ok()) return status;
  const Result<Listing> listing = list_checkpoints(root);
  if (!listing.ok()) return listing.status();
  if (Status status = check_one_run(*listing, root.string(), run); !status.ok()) return status;
  remove_stale(root, run, holder, std::numeric_limits<std::uint64_t>::max());
  return {};
}

Status remove_newer(const fs::path& root, const std::string& run, std::uint64_t updates) {
  const Result<Listing> listing = list_checkpoints(root);
  if (!listing.ok()) return listing.status();
  Status first;
  for (const Checkpoint& each : listing->complete) {
    if (each.manifest.run != run || each.manifest.updates <= updates) continue;
    const Status status = remove_checkpoint(each);
    if (first.ok()) first = status;
  }
  for (const Unreadable& each : listing->unreadable) {
    if (each.why.code() != Code::kCorrupt || *updates_of(each.folder.filename().string()) <= updates) continue;
    const Status status = remove_damaged(each.folder, run);
    if (first.ok()) first = status;
  }
  return first;
}

void remove_stale(const fs::path& root, const std::string& run, const std::string& holder, std::uint64_t before) {
  const Result<std::vector<UpdateFolder>> folders = update_folders(root);
  if (!folders.ok()) return;
  for (const UpdateFolder& each : *folders) {
    if (each.updates >= before || has_manifest(each.path)) continue;
    remove_temporary_files(each.path);
    remove_own_parts(each.path, run, holder);
    remove_if_empty(each.path);
  }
}

Status prune(const fs::path& root, const std::string& run, const std::string& holder, const Retention& retention) {
  const Result<Listing> listing = list_checkpoints(root);
  if (!listing.ok()) return listing.status();
  Status first;
  for (const Checkpoint& each : outdated(listing->complete, run, retention)) {
    const Status status = remove_checkpoint(each);
    if (first.ok()) first = status;
  }
  const auto newest =
      std::ranges::find(listing->complete, run, [](const Checkpoint& each) { return each.manifest.run; });
  if (newest != listing->complete.end()) remove_stale(root, run, holder, newest->manifest.updates);
  return first;
}

Status remove_checkpoint(const Checkpoint& checkpoint) {
  const fs::path& folder = checkpoint.folder;
  if (Status status = remove_file(folder / kManifestFile); !status.ok()) return status;
  std::error_code failure;
  if (!fs::is_directory(folder, failure)) return {};
  // From here on it is none any more, whatever happens to the machine.
  if (Status status = sync_folder(folder); !status.ok()) return status;
  Status first = remove_file(folder / kIndexFile);
  for (const PartEntry& part : checkpoint.manifest.parts) {
    const Status status = remove_file(folder / part.file);
    if (first.ok()) first = status;
  }
  remove_temporary_files(folder);
  remove_if_empty(folder);
  return first;
}

}  // namespace ravnest::checkpoint
