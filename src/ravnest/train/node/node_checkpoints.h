// One node's part in the checkpoints of its run.
//
// Who does what:
// - The root decides that a checkpoint is due, says so in a pass (PassHead::checkpoint), and notes where the data stand
//   (`announce`). One is under way at a time.
// - Every stage hands its snapshot over (`take`); a thread writes the part beside training and tells the root.
// - When the root has heard of all parts it writes the manifest: from then on the checkpoint is there. It hands the
//   manifest to all, and each who has a folder of its own writes it there. Then older ones go.
// - What a part could not be written for is a line at the root, and the checkpoint is given up: the last one stays.
//   Training goes on. So it is where a stage still writes its part of the one before, which the root has given up: no
//   more than one snapshot of a stage waits.
// - Where checkpoints are in object storage all of this is about a folder of this machine, and node_uploads.h brings
//   them up.
// With several clusters a checkpoint is of all that have held a round together: each root gathers its own cluster's
// parts as above, and the root of the first of those clusters gathers what the others have and writes the manifest.
// Where one of them is lost before its parts are there, the checkpoint is given up. Object storage has it as soon as
// the parts of all these clusters are there. Before it trains, each node says which checkpoints it could go on from
// (`readable`), the root chooses (`choose`), and all begin with it (`begin`).
//
// Safe from any thread. The writing thread ends with the object, when what it was given is done.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/checkpoint/folder.h"
#include "ravnest/checkpoint/manifest.h"
#include "ravnest/checkpoint/store.h"
#include "ravnest/net/job_thread.h"
#include "ravnest/train/node/checkpoint_options.h"
#include "ravnest/train/node/node_uploads.h"
#include "ravnest/train/node/run_record.h"
#include "ravnest/wire/call_messages.h"
#include "ravnest/wire/checkpoint_messages.h"
#include "ravnest/worker/snapshots.h"

namespace ravnest::train {

struct NodeCheckpointsOptions {
  CheckpointOptions checkpoints;
  // "pipeline", whose parts are those of its stages. Of others rank 0 has the whole model: it is the only node, and
  // `world` ranks feed beside it.
  std::string strategy = "pipeline";
  std::uint64_t world = 1;
  std::string plan;
  std::vector<std::string> nodes;  // of the cluster, by stage
  int stage = 0;
  std::uint32_t cluster = 0;
  std::uint32_t clusters = 1;
  // To the stage's node; the root may send to itself. Left empty where there is one node.
  std::function<void(int stage, wire::Checkpointing checkpointing)> post;
  // Root: to that of another cluster; and the names of all, by cluster.
  std::function<void(std::uint32_t cluster, wire::Checkpointing checkpointing)> post_to_cluster = {};
  std::vector<std::string> roots = {};
  // Root: how the run's files stood at a checkpoint.
  std::function<std::optional<RecordMark>(std::uint64_t checkpoint)> mark;
  std::function<void(const std::string& line)> warn;
};

// The name of a stage's part: "stage_1", of several clusters "cluster_0_stage_1".
std::string part_name(std::uint32_t cluster, std::uint32_t clusters, int stage);

class NodeCheckpoints {
 public:
  explicit NodeCheckpoints(NodeCheckpointsOptions options);
  NodeCheckpoints(const NodeCheckpoints&) = delete;
  NodeCheckpoints& operator=(const NodeCheckpoints&) = delete;
  ~NodeCheckpoints();

  // -- before anything is trained

  // Of the run, for its manifests, and to be compared with those of a checkpoint that is gone on from.
  void set_settings(std::map<std::string, std::string> settings) { settings_ = std::move(settings); }
  const std::map<std::string, std::string>& settings() const { return settings_; }
  // Those that this node could go on from, as the options ask for it: their own parts are here and whole, or all are.
  // The digests of the first two are computed, of others only once they are chosen. Fails where there is nothing and
  // the options name one, and where this node may not write. Torn ones are passed over with a line. May wait for the
  // network and the disk: `stop` ends that.
  Result<std::vector<wire::ReadableCheckpoint>> readable();
  // The root's choice of what all can read, by stage; a new run where none is to be gone on from. kInvalid where nodes
  // have checkpoints, and none in common, and for settings that may not change.
  Result<wire::CheckpointRun> choose(const std::vector<wire::Ready>& ready) const;
  // The same of a root of several clusters, in two steps: what its own cluster can read; and whether what all clusters
  // have chosen of it can be gone on from with these settings.
  Result<wire::RunOffer> offer(const std::vector<wire::Ready>& ready) const;
  Status fits(const wire::CheckpointRun& chosen) const;
  // The part that this stage goes on with, for tensors of these names, fetched where it is not here; none where the run
  // begins anew. Fails where the folder cannot be written to, or has another run's checkpoints.
  Result<std::optional<checkpoint::Part>> begin(const wire::CheckpointRun& run, const std::set<std::string>& weights,
                                                const std::set<std::string>& buffers);
  // Once all have begun: the run's later checkpoints go, whose places its own will take. Not before, since some other
  // node may find that it cannot go on from this one.
  Status remove_later();
  // Of the run's settings and the optimizer's options what is not as it was, once it goes on; none where all is.
  std::optional<std::string> what_changed(const std::vector<std::string>& options_kept) const;
  // What the run goes on from, once it has begun.
  const std::optional<checkpoint::Manifest>& resumed() const { return resumed_; }
  // Where they go, if that is no folder: all nodes have to have the same. Once `readable` was called.
  std::string object_storage() const { return store_->uploads() ? store_->name() : "none"; }
  // Where the run goes on from, as the user named it.
  const std::string& source_name() const { return source_name_; }

  // -- while it trains

  // Root: whether one is under way, or uploads are behind.
  bool under_way() const;
  // Root: whether so many are on their way to object storage that another one would be too much.
  bool is_behind() const { return uploads_ && uploads_->is_behind(); }
  // Root: the pass that says so is offered next. `position` is that after it.
  void announce(std::uint64_t checkpoint, const checkpoint::DataPosition& position);
  // With several clusters: a round holds of which these make a checkpoint; what is announced later is that one. Their
  // snapshots come now; or this cluster can take none, because of `failure`.
  void expect(std::vector<std::uint32_t> participants);
  void announce_with_others(std::uint64_t checkpoint, const checkpoint::DataPosition& position);
  void announce_failure(std::uint64_t checkpoint, const std::string& failure);
  // From the worker.
  void take(worker::Snapshot snapshot);
  Status on_message(int from, wire::Checkpointing checkpointing);
  // Root: from that of another cluster; and that it is gone.
  Status on_cluster(std::uint32_t from, wire::Checkpointing checkpointing);
  void on_cluster_gone(std::uint32_t cluster);
  // Root: whether none is under way by then.
  bool wait_for_last(TimePoint deadline) const;
  // Until all that was begun here is written, and up where it goes to object storage.
  void settle();
  // Root, where checkpoints go to object storage: whether those of all clusters are there, or given up, by then.
  bool is_up_by(TimePoint deadline) const { return !uploads_ || uploads_->is_up_by(deadline); }
  // A line says so.
  void say_that_it_waits() const { uploads_->say_that_it_waits(); }
  // Ends what waits for the network.
  void stop();
  // The last checkpoint that is complete; 0: none.
  std::uint64_t last() const;

 private:
  struct Readable {
    checkpoint::Checkpoint checkpoint;
    bool verified = false;  // with digests
  };
  struct UnderWay {
    std::uint64_t checkpoint = 0;
    checkpoint::DataPosition position;
    std::map<int, checkpoint::PartEntry> parts;  // by stage
    std::vector<std::string> order;
    std::vector<std::uint32_t> participants = {};  // of several clusters
    std::set<std::uint32_t> gone = {};             // those of them that were lost since the round held
  };
  // What a cluster has of a checkpoint: its manifest, or why there is none.
  using Share = Result<checkpoint::Manifest>;

  bool is_root() const { return options_.stage == 0; }
  const std::string& own_name() const { return options_.nodes[static_cast<std::size_t>(options_.stage)]; }
  bool is_pipeline() const { return options_.strategy == "pipeline"; }
  std::string own_part() const;
  // Whether it is cut as this run is.
  bool has_own_part(const checkpoint::Manifest& manifest) const;
  Result<checkpoint::Part> read(const checkpoint::Checkpoint& from, const std::set<std::string>& weights,
                                const std::set<std::string>& buffers) const;
  checkpoint::VerifyOptions own_parts(const checkpoint::Manifest& manifest) const;
  Result<checkpoint::Checkpoint> fetched(const Readable& readable);
  checkpoint::DataPosition position_in(const checkpoint::Manifest& manifest) const;
  const Readable* known(const std::string& run, std::uint64_t updates) const;
  Status open_stores();
  Result<std::vector<checkpoint::Checkpoint>> candidates();
  void tell(int stage, wire::Checkpointing said);
  Result<checkpoint::PartEntry> write_part(const worker::Snapshot& snapshot);
  void write(const worker::Snapshot& snapshot);
  Status on_part(int from, const wire::PartWritten& written);
  void on_over(const wire::CheckpointOver& over);
  checkpoint::Manifest manifest_of(UnderWay done) const;
  void complete(UnderWay done);
  void finish(const checkpoint::Manifest& manifest);
  void upload_manifest(const checkpoint::Manifest& manifest, std::set<std::uint32_t> participants,
                       const std::set<std::uint32_t>& gone);
  void is_over(std::uint64_t checkpoint) RAVNEST_REQUIRES(mutex_);
  void give_up(std::uint64_t checkpoint, const std::string& why);
  void hand_in(std::uint64_t checkpoint, Share share);
  void take_share(std::uint64_t checkpoint, std::uint32_t cluster, Share share);
  void join_shares(std::uint64_t checkpoint);
  void tell_clusters(const wire::CheckpointOver& over, const std::vector<std::uint32_t>& clusters);
  void relay(const wire::CheckpointOver& over);
  std::string name_of(std::uint32_t cluster) const;
  Status keep(const checkpoint::Manifest& manifest);
  void stop_stores() RAVNEST_REQUIRES(mutex_);
  bool is_stopped() const;

  const NodeCheckpointsOptions options_;
  const checkpoint::PlaceAndWhich resume_;      // what the options ask for
  std::unique_ptr<checkpoint::Store> store_;    // once `readable` was called
  std::unique_ptr<checkpoint::Store> another_;  // to go on from, where that is not the same place
  checkpoint::Store* source_ = nullptr;         // the one of both that the run goes on from
  std::string source_name_;
  std::map<std::string, std::string> settings_;
  std::vector<Readable> readable_;
  std::optional<checkpoint::Manifest> resumed_;
  bool joins_ = false;  // others of the run train already
  std::string run_;

  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  bool stopped_ RAVNEST_GUARDED_BY(mutex_) = false;
  std::optional<UnderWay> under_way_ RAVNEST_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> writing_ RAVNEST_GUARDED_BY(mutex_);  // the snapshot that waits or is written
  std::uint64_t last_ RAVNEST_GUARDED_BY(mutex_) = 0;
  // With several clusters: of the last round of which a checkpoint is made, and those that are gone since it held. The
  // checkpoint under way may be an earlier one.
  std::vector<std::uint32_t> participants_ RAVNEST_GUARDED_BY(mutex_);
  std::set<std::uint32_t> gone_ RAVNEST_GUARDED_BY(mutex_);
  // By checkpoint: what clusters have of it. Others may be ahead of this one's own announcement.
  std::map<std::uint64_t, std::map<std::uint32_t, Share>> shares_ RAVNEST_GUARDED_BY(mutex_);
  std::unique_ptr<NodeUploads> uploads_;  // where the run has begun and its checkpoints go to object storage
  JobThread writer_;                      // last: it uses all above
};

// Does `work`, what of `checkpoints` may wait for the network and does not throw, for whoever may want to end
// meanwhile: where `poll` fails, so does this, and the work is stopped.
Status while_polling(NodeCheckpoints& checkpoints, const std::function<void()>& work,
                     const std::function<Status()>& poll);

}  // namespace ravnest::train
