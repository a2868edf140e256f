// One node's part in bringing its run's checkpoints to object storage, beside training.
//
// Who does what:
// - Each stage's uploading thread sends its parts in the order in which they were written, and tells the root of each.
// - When the checkpoint is complete on the nodes, and the root has heard that all parts are up, its thread sends the
//   manifest: from then on the checkpoint is there for others. Then it removes what is outdated there.
// - With several clusters the root that has written the manifest on the nodes puts it, too: each of the others tells it
//   when all parts of its own cluster are up, and is told when the manifest is.
// - What cannot be sent, after requests were repeated as often as object storage has it, is a line at the root with the
//   command that makes up for it. The checkpoint stays on the nodes, and the run goes on. So it does where a cluster is
//   lost before its parts are up.
// - Where the network is slower than checkpoints are made, the root makes fewer (`is_behind`), so that never more than
//   two are on their way.
//
// Safe from any thread. With the object ends what is under way; `settle` waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/checkpoint/store.h"
#include "ravnest/net/job_thread.h"
#include "ravnest/wire/checkpoint_messages.h"

namespace ravnest::train {

// After which a wait for the network is worth a word.
inline constexpr Duration kSayOfUploadsAfter = std::chrono::seconds(5);

struct NodeUploadsOptions {
  checkpoint::Retention retention;
  std::vector<std::string> nodes;  // of the cluster, by stage
  // To the root, which may be this node.
  std::function<void(wire::PartUploaded uploaded)> tell_root;
  // Root, where there are several clusters: to that of another one; and what messages call it.
  std::function<void(std::uint32_t cluster, wire::PartUploaded uploaded)> tell_cluster = {};
  std::function<std::string(std::uint32_t cluster)> name_of = {};
  std::function<void(const std::string& line)> warn;
};

class NodeUploads {
 public:
  // The run has begun in `store`, which must outlive this.
  NodeUploads(checkpoint::Store& store, NodeUploadsOptions options);
  NodeUploads(const NodeUploads&) = delete;
  NodeUploads& operator=(const NodeUploads&) = delete;
  ~NodeUploads();

  // This node's part is written.
  void upload(std::uint64_t checkpoint, std::string file);

  // Root: the checkpoint is complete on the nodes, on those of these other clusters, too.
  void complete(checkpoint::Manifest manifest, std::set<std::uint32_t> others = {});
  // Root of one of these others: so it is, and the root of `leads` puts the manifest.
  void complete_at(std::uint32_t leads, std::uint64_t checkpoint);
  // Root: of a stage of its own cluster.
  void on_part(int from, const wire::PartUploaded& uploaded);
  // Root: of that of another cluster. To whoever puts the manifest: that cluster's parts are up, or one is not. From
  // it: the manifest is, or the checkpoint is given up.
  void on_cluster(std::uint32_t from, const wire::PartUploaded& uploaded);
  void on_cluster_gone(std::uint32_t cluster);
  // Root: so many complete checkpoints are on their way that another one would be too much.
  bool is_behind() const;

  // Until all that was begun here is up or given up.
  void settle();
  // Root: whether no checkpoint is on its way by then, of any node.
  bool is_up_by(TimePoint deadline) const;
  // The line for whoever waits for that.
  void say_that_it_waits() const;

 private:
  struct Arriving {
    std::set<int> stages;  // whose parts are up
    std::optional<checkpoint::Manifest> manifest;
    std::set<std::uint32_t> others = {};      // clusters
    std::set<std::uint32_t> awaited = {};     // those of them whose parts are not up
    std::optional<std::uint32_t> leads = {};  // the cluster whose root puts the manifest, where that is not this one
    std::vector<std::string> untold = {};     // failures of before it was complete: who failed, and why
    bool failed = false;
  };
  // What there is to say, once the lock is free.
  struct Said {
    std::vector<std::string> lines;
    std::vector<std::pair<std::uint32_t, wire::PartUploaded>> to_clusters;
  };

  void send_part(std::uint64_t checkpoint, const std::string& file);
  void send_manifest(const checkpoint::Manifest& manifest, const std::set<std::uint32_t>& others);
  void finish_if_all_is_up(std::uint64_t checkpoint, Said& said) RAVNEST_REQUIRES(mutex_);
  void fail(std::uint64_t checkpoint, const std::string& why, Said& said) RAVNEST_REQUIRES(mutex_);
  void is_over(std::uint64_t checkpoint) RAVNEST_REQUIRES(mutex_);
  void say(const Said& said) const;
  std::string not_there(std::uint64_t checkpoint, const std::string& why) const;

  checkpoint::Store& store_;
  const NodeUploadsOptions options_;
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  std::map<std::uint64_t, Arriving> arriving_ RAVNEST_GUARDED_BY(mutex_);
  std::set<std::uint64_t> on_their_way_ RAVNEST_GUARDED_BY(mutex_);  // complete on the nodes, and not there yet
  JobThread uploader_;                                               // last: it uses all above
};

}  // namespace ravnest::train
