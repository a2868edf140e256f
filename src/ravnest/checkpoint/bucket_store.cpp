#include "ravnest/checkpoint/bucket_store.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/folder.h"
#include "ravnest/base/printable.h"
#include "ravnest/checkpoint/names.h"
#include "ravnest/identity/sha256.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;

// On this machine: one that is on its way up, one that waits for that, and one that is written.
constexpr std::uint64_t kKeptHere = 3;
// Enough of a digest to tell places apart.
constexpr std::size_t kFolderDigits = 32;

bool is_among(const std::vector<Checkpoint>& all, std::uint64_t updates) {
  return std::ranges::any_of(all, [&](const Checkpoint& each) { return each.manifest.updates == updates; });
}

// Below it, what has no manifest will get none: it would be outdated. From there on its upload may be made up for.
std::uint64_t outdated_before(const std::vector<Checkpoint>& newest_first, std::uint64_t keep) {
  return keep == 0 || newest_first.size() < keep ? 0 : newest_first[keep - 1].manifest.updates;
}

}  // namespace

BucketStore::BucketStore(std::unique_ptr<object_store::ObjectStore> store, object_store::ObjectName name,
                         fs::path cache, StoreOptions options)
    : Store(std::move(options)),
      bucket_(std::move(store), std::move(name), [this] { return !stopped_; }),
      cache_(std::move(cache)) {}

fs::path BucketStore::local_root(const std::string& run) const {
  const auto digest = identity::sha256(as_byte_span(text(bucket_.endpoint(), "\n", bucket_.shown(), "\n", run)));
  const std::string name = digest.ok() ? digest->substr(0, kFolderDigits) : std::string("run");
  return cache_ / "checkpoints" / name / options_.holder;
}

Checkpoint BucketStore::here(const Checkpoint& checkpoint) const {
  return {checkpoint_folder(local_root(checkpoint.manifest.run), checkpoint.manifest.updates), checkpoint.manifest};
}

bool BucketStore::is_only_here(const Checkpoint& checkpoint) const {
  return !object_store::is_s3_url(checkpoint.folder.string());
}

Status BucketStore::check_access() {
  const Status reads = bucket_.check_readable();
  return reads.ok() ? bucket_.check_writable() : reads;
}

// -- to go on from one

Result<Listing> BucketStore::list() {
  Result<Listing> listing = bucket_.list();
  if (!listing.ok()) return listing;
  std::set<std::string> runs;
  for (const Checkpoint& each : listing->complete) runs.insert(each.manifest.run);
  for (const std::string& run : runs) {
    const Result<Listing> local = list_checkpoints(local_root(run));
    if (!local.ok()) continue;
    for (const Checkpoint& each : local->complete) {
      if (each.manifest.run == run && !is_among(listing->complete, each.manifest.updates))
        listing->complete.push_back(each);
    }
  }
  std::ranges::stable_sort(listing->complete, std::ranges::greater(),
                           [](const Checkpoint& each) { return each.manifest.updates; });
  return listing;
}

Result<Checkpoint> BucketStore::find(std::string_view which) {
  const Result<Listing> listing = list();
  if (!listing.ok()) return listing.status();
  if (auto found = find_listed(*listing, name(), which)) return std::move(*found);
  return find_checkpoint({}, which);  // a path, then
}

Status BucketStore::check(const Checkpoint& checkpoint, const VerifyOptions& options) {
  if (is_only_here(checkpoint)) return verified(checkpoint, options);
  if (verified(here(checkpoint), options).ok()) return {};
  const std::set<std::string>& parts = options.parts;
  Status all;
  for (const PartEntry& part : checkpoint.manifest.parts) {
    if (!parts.empty() && !parts.contains(part.name)) continue;
    const Status well = bucket_.check_part(checkpoint.manifest.updates, part);
    if (!well.ok()) all = line_by_line(all, well);
  }
  return all;
}

Result<Checkpoint> BucketStore::fetch(const Checkpoint& checkpoint, const std::set<std::string>& parts) {
  if (is_only_here(checkpoint)) return checkpoint;
  Checkpoint local = here(checkpoint);
  VerifyOptions options;
  options.parts = parts;
  if (verified(local, options).ok()) return local;
  if (Status made = make_folders(local.folder); !made.ok()) return made;
  for (const PartEntry& part : checkpoint.manifest.parts) {
    if (!parts.empty() && !parts.contains(part.name)) continue;
    Status fetched = bucket_.get_part(checkpoint.manifest.updates, part, local.folder / part.file, options_.on_fetched);
    if (!fetched.ok()) return fetched;
  }
  if (Status written = write_manifest(local.folder, local.manifest); !written.ok()) return written;
  if (Status whole = verified(local, options); !whole.ok()) return whole;
  return local;
}

Status BucketStore::remove(const Checkpoint& checkpoint) {
  if (is_only_here(checkpoint)) return remove_checkpoint(checkpoint);
  const Checkpoint local = here(checkpoint);
  Status removed = bucket_.remove(checkpoint.manifest);
  std::error_code ignored;
  if (fs::exists(local.folder, ignored)) removed = first_failure(removed, remove_checkpoint(local));
  return removed;
}

// -- to make them

Status BucketStore::begin_run(const std::string& run) {
  run_ = run;
  root_ = local_root(run);
  Result<Listing> listing = bucket_.list();
  if (!listing.ok()) return listing.status();
  if (Status alone = check_one_run(*listing, name(), run); !alone.ok()) return alone;
  if (Status begun = checkpoint::begin_run(root_, run, options_.holder); !begun.ok()) return begun;
  const Result<Listing> local = list_checkpoints(root_);
  if (!local.ok()) return local.status();
  there_ = std::move(listing->complete);
  const MutexLock lock(mutex_);
  for (const Checkpoint& each : local->complete) {
    if (is_among(there_, each.manifest.updates)) up_.insert(each.manifest.updates);
  }
  return {};
}

Status BucketStore::remove_newer(std::uint64_t updates, bool leads) {
  Status removed = checkpoint::remove_newer(root_, run_, updates);
  const std::vector<Checkpoint> before = std::exchange(there_, {});
  for (const Checkpoint& each : before) {
    if (each.manifest.updates <= updates)
      there_.push_back(each);
    else if (leads)
      removed = first_failure(removed, bucket_.remove(each.manifest));
  }
  return removed;
}

fs::path BucketStore::folder(std::uint64_t updates) const { return checkpoint_folder(root_, updates); }

Status BucketStore::keep(const Manifest& manifest, const Retention& retention, Status& unpruned) {
  if (Status written = write_manifest(folder(manifest.updates), manifest); !written.ok()) return written;
  unpruned = prune_here(retention);
  return {};
}

// What is up is here for a start on this machine alone; what is not, or not yet, stays as long as the run keeps it.
Status BucketStore::prune_here(const Retention& retention) {
  const Result<Listing> listing = list_checkpoints(root_);
  if (!listing.ok()) return listing.status();
  Status first;
  for (const Checkpoint& each : outdated(listing->complete, run_, {.keep = kKeptHere})) {
    const MutexLock lock(mutex_);
    if (!up_.contains(each.manifest.updates) &&
        !is_among(outdated(listing->complete, run_, retention), each.manifest.updates))
      continue;
    up_.erase(each.manifest.updates);
    first = first_failure(first, remove_checkpoint(each));
  }
  if (!listing->complete.empty())
    remove_stale(root_, run_, options_.holder, listing->complete.front().manifest.updates);
  return first;
}

// -- what is up there

Status BucketStore::upload_part(std::uint64_t updates, const std::string& file) {
  Status put = bucket_.put_part(updates, folder(updates) / file);
  if (!put.ok()) return put;
  const MutexLock lock(mutex_);
  up_.insert(updates);
  return put;
}

Status BucketStore::upload_manifest(const Manifest& manifest, const Retention& retention, Status& unpruned) {
  if (Status put = bucket_.put_manifest(manifest); !put.ok()) {
    const MutexLock lock(mutex_);
    up_.erase(manifest.updates);
    return put;
  }
  there_.insert(there_.begin(), {bucket_.shown(manifest.updates), manifest});
  if (options_.has_others_that_lead) look_again();
  unpruned = prune_there(retention);
  return {};
}

// Where that fails, what is known stays, and is looked at again with the next one.
void BucketStore::look_again() {
  Result<Listing> listing = bucket_.list(there_);
  if (!listing.ok()) return;
  there_ = std::move(listing->complete);
  std::erase_if(there_, [&](const Checkpoint& each) { return each.manifest.run != run_; });
}

Status BucketStore::prune_there(const Retention& retention) {
  Status first;
  for (const Checkpoint& each : outdated(there_, run_, retention)) {
    const Status removed = bucket_.remove(each.manifest);
    first = first_failure(first, removed);
    if (removed.ok())
      std::erase_if(there_, [&](const Checkpoint& one) { return one.manifest.updates == each.manifest.updates; });
  }
  return first_failure(first, bucket_.remove_stale(outdated_before(there_, retention.keep)));
}

std::string BucketStore::command_to_upload(std::uint64_t updates) const {
  return text("ravnest cp -r ", folder(updates).string(), " ", bucket_.shown(updates));
}

}  // namespace ravnest::checkpoint
