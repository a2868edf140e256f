// A run's folder of checkpoints in object storage: what folder.h is for one on a disk.
//
//   s3://lab/run/update_000000080/stage_0.safetensors, .../manifest.json
//
// The objects are the files of a local one, under the same names, so that `ravnest cp -r` makes the one of the other.
// Here, too, a checkpoint is there once its manifest is, and goes manifest first. One run writes into a folder at a
// time. Any thread may call; calls end early, with kCancelled, where `go_on` says so, and else as those of ObjectStore.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/checkpoint/folder.h"
#include "ravnest/object_store/object_store.h"

namespace ravnest::checkpoint {

// Where several things are tried, whatever becomes of each.
inline Status first_failure(const Status& first, const Status& second) { return first.ok() ? second : first; }

class BucketFolder {
 public:
  using GoOn = std::function<bool()>;

  // `name` as the user wrote it, with a slash at its end or without; its key may be empty.
  BucketFolder(std::unique_ptr<object_store::ObjectStore> store, object_store::ObjectName name, GoOn go_on);

  // "s3://lab/run", and of an update "s3://lab/run/update_000000120".
  std::string shown() const;
  std::string shown(std::uint64_t updates) const;
  // Of which server, for those who keep copies.
  std::string endpoint() const { return store_->settings().endpoint.url(); }

  // Checkpoints' folders are `shown` of their updates. A folder that is not there has none; no bucket is a failure.
  // Manifests that are `known` are not fetched again.
  Result<Listing> list(const std::vector<Checkpoint>& known = {});
  // Fails, with what is missing, where no list of it can be had, and where no object may be put into it.
  Status check_readable() { return objects().status(); }
  Status check_writable();
  // Whether the part's object is there, of its size and, where the server knows it, its digest.
  Status check_part(std::uint64_t updates, const PartEntry& part);
  // Into a file, of which the folder exists. What an earlier call did not finish is taken up.
  Status get_part(std::uint64_t updates, const PartEntry& part, const std::filesystem::path& to,
                  const std::function<void(std::uint64_t done, std::uint64_t all)>& on_fetched = {});
  Status put_part(std::uint64_t updates, const std::filesystem::path& from);
  // The index and then the manifest: from then on the checkpoint is there for others.
  Status put_manifest(const Manifest& manifest);
  // The manifest first, then the index and the parts that it names.
  Status remove(const Manifest& manifest);
  // Parts and indexes of updates below `before` that have no manifest.
  Status remove_stale(std::uint64_t before);

 private:
  // By update, what is in its folder.
  using Objects = std::map<std::uint64_t, std::set<std::string, std::less<>>>;
  Result<Objects> objects();
  object_store::ObjectName object(std::uint64_t updates, std::string_view file) const;

  const std::unique_ptr<object_store::ObjectStore> store_;
  object_store::ObjectName name_;  // the key is empty or ends in '/'
  const GoOn go_on_;
};

}  // namespace ravnest::checkpoint
