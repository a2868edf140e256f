// Checkpoints in object storage, with a folder of this machine before them.
//
//   s3://lab/run/update_000000120/...                                     for all
//   ~/.cache/ravnest/checkpoints/3f0a.../node_0/update_000000120/...      this holder's own parts, and what it fetched
//
// The local folder is one of this place, this run and this holder, so that runs never meet there. It keeps the newest
// checkpoints, and of those whose upload failed as many as the run keeps; whoever goes on on the same machine reads
// them there. Whoever wants room may remove it while the run does not run.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/checkpoint/bucket_folder.h"
#include "ravnest/checkpoint/store.h"

namespace ravnest::checkpoint {

class BucketStore final : public Store {
 public:
  BucketStore(std::unique_ptr<object_store::ObjectStore> store, object_store::ObjectName name,
              std::filesystem::path cache, StoreOptions options);

  std::string name() const override { return bucket_.shown(); }
  Status check_access() override;
  void stop() override { stopped_ = true; }
  Result<Listing> list() override;
  Result<Checkpoint> find(std::string_view which) override;
  Status check(const Checkpoint& checkpoint, const VerifyOptions& options) override;
  Result<Checkpoint> fetch(const Checkpoint& checkpoint, const std::set<std::string>& parts) override;
  Status remove(const Checkpoint& checkpoint) override;
  Status begin_run(const std::string& run) override;
  Status remove_newer(std::uint64_t updates, bool leads) override;
  std::filesystem::path folder(std::uint64_t updates) const override;
  Status keep(const Manifest& manifest, const Retention& retention, Status& unpruned) override;
  bool uploads() const override { return true; }
  Status upload_part(std::uint64_t updates, const std::string& file) override;
  Status upload_manifest(const Manifest& manifest, const Retention& retention, Status& unpruned) override;
  std::string command_to_upload(std::uint64_t updates) const override;

 private:
  // This holder's folder for a run.
  std::filesystem::path local_root(const std::string& run) const;
  // The same checkpoint with its folder there, whether or not anything is in it.
  Checkpoint here(const Checkpoint& checkpoint) const;
  bool is_only_here(const Checkpoint& checkpoint) const;
  Status prune_here(const Retention& retention);
  Status prune_there(const Retention& retention);
  void look_again();

  std::atomic<bool> stopped_ = false;
  BucketFolder bucket_;
  const std::filesystem::path cache_;
  std::string run_;                // once it has begun
  std::filesystem::path root_;     // the same
  std::vector<Checkpoint> there_;  // of the run, as it began and what was added; of the uploading thread
  Mutex mutex_;
  std::set<std::uint64_t> up_ RAVNEST_GUARDED_BY(mutex_);  // of those that are here: this holder's part
};

}  // namespace ravnest::checkpoint
