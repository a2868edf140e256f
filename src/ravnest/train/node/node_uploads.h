// One node's part in bringing its run's checkpoints to object storage, beside training.
//
// Who does what:
// - Each stage's uploading thread sends its parts in the order in which they were written, and tells the root of each.
// - When the checkpoint is complete on the nodes, and the root has heard that all parts are up, its thread sends the
//   manifest: from then on the checkpoint is there for others. Then it removes what is outdated there.
// - What cannot be sent, after requests were repeated as often as object storage has it, is a line at the root with the
//   command that makes up for it. The checkpoint stays on the nodes, and the run goes on.
// - Where the network is slower than checkpoints are made, the root makes fewer (`is_behind`), so that never more than
//   two are on their way.
//
// Safe from any thread. With the object ends what is under way; `settle` waits for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/checkpoint/store.h"
#include "ravnest/net/job_thread.h"
#include "ravnest/wire/checkpoint_messages.h"

namespace ravnest::train {

struct NodeUploadsOptions {
  checkpoint::Retention retention;
  std::vector<std::string> nodes;  // of the cluster, by stage
  // To the root, which may be this node.
  std::function<void(wire::PartUploaded uploaded)> tell_root;
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

  // Root: the checkpoint is complete on the nodes.
  void complete(checkpoint::Manifest manifest);
  // Root.
  void on_part(int from, const wire::PartUploaded& uploaded);
  // Root: so many complete checkpoints are on their way that another one would be too much.
  bool is_behind() const;

  // Until all that was begun here is up or given up.
  void settle();

 private:
  struct Arriving {
    std::set<int> stages;  // whose parts are up
    std::optional<checkpoint::Manifest> manifest;
    bool failed = false;
  };

  void send_part(std::uint64_t checkpoint, const std::string& file);
  void send_manifest(const checkpoint::Manifest& manifest);
  void finish_if_all_is_up(std::uint64_t checkpoint) RAVNEST_REQUIRES(mutex_);
  std::string not_there(std::uint64_t checkpoint, const std::string& who, const std::string& why) const;

  checkpoint::Store& store_;
  const NodeUploadsOptions options_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, Arriving> arriving_ RAVNEST_GUARDED_BY(mutex_);
  std::set<std::uint64_t> on_their_way_ RAVNEST_GUARDED_BY(mutex_);  // complete on the nodes, and not there yet
  JobThread uploader_;                                               // last: it uses all above
};

}  // namespace ravnest::train
