// Where a run's checkpoints are, for those who make them and those who go on from one or look after them.
//
// Either a folder of this machine, or one that machines share; or, as s3://BUCKET/FOLDER, object storage with a folder
// of this machine before it: there each holder writes its parts first, as fast as its disk is, and brings them up
// beside training (train/node/node_uploads.h); there goes, too, what is fetched. So what a part is read from and
// written to is a local folder either way, with the promises of folder.h.
//
// One writer thread at a time, and beside it one that uploads; `stop` from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/folder.h"
#include "ravnest/checkpoint/verify.h"
#include "ravnest/object_store/settings.h"

namespace ravnest::checkpoint {

struct StoreOptions {
  std::string holder = {};                     // who writes here, and whose copies on this machine they are: "node_0"
  object_store::Environment environment = {};  // keys, region, endpoint and cache, of object storage
  // Others of the run put manifests into object storage, too, before this one does or in between.
  bool has_others_that_lead = false;
  // Told now and then of the bytes of a file that is fetched. Of the thread that fetches, or of one of its own.
  std::function<void(std::uint64_t done, std::uint64_t all)> on_fetched = {};
};

class Store {
 public:
  // `where`: a path, or s3://BUCKET/FOLDER. Asks nobody yet; fails where object storage cannot be reached from here at
  // all (no library, settings that cannot be read, no place for a cache).
  static Result<std::unique_ptr<Store>> open(const std::filesystem::path& where, StoreOptions options);

  explicit Store(StoreOptions options) : options_(std::move(options)) {}
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  // As the user named it.
  virtual std::string name() const = 0;
  // Fails where this holder may not read and write there. Changes nothing.
  virtual Status check_access() = 0;
  // Ends what waits for the network, with kCancelled, now and from now on.
  virtual void stop() {}

  // -- to go on from one, and to look after them

  // All of them, the newest first. Those that are on this machine alone, since their upload failed, are among them.
  virtual Result<Listing> list() = 0;
  // As find_checkpoint has it; `which` may be of another place of the same kind, too.
  virtual Result<Checkpoint> find(std::string_view which) = 0;
  // Whether these parts are as they were written. In object storage: as far as the server tells, which is their sizes
  // and the digests that were noted when they were put.
  virtual Status check(const Checkpoint& checkpoint, const VerifyOptions& options) = 0;
  // The same checkpoint with a folder of this machine, in which the parts of these names (empty: all) are. What had to
  // be fetched has its digest.
  virtual Result<Checkpoint> fetch(const Checkpoint& checkpoint, const std::set<std::string>& parts) = 0;
  virtual Status remove(const Checkpoint& checkpoint) = 0;

  // -- to make them

  // As checkpoint::begin_run.
  virtual Status begin_run(const std::string& run) = 0;
  // As checkpoint::remove_newer; once for all holders of a place that they share by `leads`.
  virtual Status remove_newer(std::uint64_t updates, bool leads) = 0;
  // Where this holder writes its part of a checkpoint. Once the run has begun, as is all below.
  virtual std::filesystem::path folder(std::uint64_t updates) const = 0;
  // All parts are written: writes the manifest into that folder, and prunes what is on this machine. The failure of the
  // latter is `unpruned`.
  virtual Status keep(const Manifest& manifest, const Retention& retention, Status& unpruned) = 0;

  // -- where there is something behind the folder

  virtual bool uploads() const { return false; }
  virtual Status upload_part(std::uint64_t updates, const std::string& file);
  // To be called once, by whoever leads, when all parts are up: from then on others see the checkpoint. Then outdated
  // ones go there.
  virtual Status upload_manifest(const Manifest& manifest, const Retention& retention, Status& unpruned);
  // "`ravnest cp -r FOLDER s3://...`", which makes up for uploads that failed.
  virtual std::string command_to_upload(std::uint64_t updates) const;

 protected:
  const StoreOptions options_;
};

// A place and one of its checkpoints, as `resume=` and commands name both: "s3://lab/run/update_000000120" is
// "update_000000120" in "s3://lab/run", and so are "/last", "/newest" and "/best" there. What is no such URL is one of
// those in `folder`. "last" comes out as "newest".
struct PlaceAndWhich {
  std::filesystem::path place;
  std::string which;
};
PlaceAndWhich place_and_which(const std::filesystem::path& folder, const std::string& named);

}  // namespace ravnest::checkpoint
