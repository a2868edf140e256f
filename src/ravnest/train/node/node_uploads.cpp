#include "ravnest/train/node/node_uploads.h"

#include <utility>

#include "ravnest/base/clock.h"
#include "ravnest/base/text.h"

namespace ravnest::train {
namespace {

// One that is sent, and one that waits for it.
constexpr std::size_t kMostOnTheirWay = 2;
// After which a wait for the network is worth a word.
constexpr Duration kSayOfUploadsAfter = std::chrono::seconds(5);

}  // namespace

NodeUploads::NodeUploads(checkpoint::Store& store, NodeUploadsOptions options)
    : store_(store), options_(std::move(options)), uploader_([this](const std::string& what) {
        options_.warn(text("a checkpoint could not be uploaded: ", what));
      }) {}

NodeUploads::~NodeUploads() { store_.stop(); }

void NodeUploads::upload(std::uint64_t checkpoint, std::string file) {
  uploader_.add([this, checkpoint, file = std::move(file)] { send_part(checkpoint, file); });
}

void NodeUploads::send_part(std::uint64_t checkpoint, const std::string& file) {
  const Status sent = store_.upload_part(checkpoint, file);
  if (sent.code() == Code::kCancelled) return;  // the run ends, and not well
  wire::PartUploaded said{checkpoint, {}};
  if (!sent.ok())
    said.failure = text(sent.message(), ". There `", store_.command_to_upload(checkpoint), "` makes up for it");
  options_.tell_root(std::move(said));
}

// -- at the root

void NodeUploads::complete(checkpoint::Manifest manifest) {
  const MutexLock lock(mutex_);
  const std::uint64_t checkpoint = manifest.updates;
  Arriving& arriving = arriving_[checkpoint];
  if (arriving.failed) return;
  arriving.manifest = std::move(manifest);
  on_their_way_.insert(checkpoint);
  finish_if_all_is_up(checkpoint);
}

void NodeUploads::on_part(int from, const wire::PartUploaded& uploaded) {
  {
    const MutexLock lock(mutex_);
    Arriving& arriving = arriving_[uploaded.checkpoint];
    if (!uploaded.failure) {
      arriving.stages.insert(from);
      finish_if_all_is_up(uploaded.checkpoint);
      return;
    }
    arriving.failed = true;
    on_their_way_.erase(uploaded.checkpoint);
  }
  options_.warn(not_there(uploaded.checkpoint, options_.nodes[static_cast<std::size_t>(from)], *uploaded.failure));
}

void NodeUploads::finish_if_all_is_up(std::uint64_t checkpoint) {
  const auto found = arriving_.find(checkpoint);
  Arriving& arriving = found->second;
  if (arriving.failed || !arriving.manifest || arriving.stages.size() < options_.nodes.size()) return;
  uploader_.add([this, manifest = std::move(*arriving.manifest)] { send_manifest(manifest); });
  // Of earlier ones, too, that were given up on the way.
  arriving_.erase(arriving_.begin(), std::next(found));
}

void NodeUploads::send_manifest(const checkpoint::Manifest& manifest) {
  Status unpruned;
  const Status sent = store_.upload_manifest(manifest, options_.retention, unpruned);
  if (!sent.ok() && sent.code() != Code::kCancelled) {
    options_.warn(
        not_there(manifest.updates, options_.nodes.front(),
                  text(sent.message(), ". There `", store_.command_to_upload(manifest.updates), "` makes up for it")));
  }
  if (!unpruned.ok()) options_.warn(text("an older checkpoint could not be removed: ", unpruned.message()));
  const MutexLock lock(mutex_);
  on_their_way_.erase(manifest.updates);
}

std::string NodeUploads::not_there(std::uint64_t checkpoint, const std::string& who, const std::string& why) const {
  return text("the checkpoint of update ", checkpoint, " is on the nodes, but not in ", store_.name(), ": ", who, ": ",
              why);
}

bool NodeUploads::is_behind() const {
  const MutexLock lock(mutex_);
  return on_their_way_.size() >= kMostOnTheirWay;
}

void NodeUploads::settle() {
  if (uploader_.is_idle_by(SystemClock().now() + kSayOfUploadsAfter)) return;
  options_.warn(text("waits until its checkpoint is in ", store_.name()));
  uploader_.wait_until_idle();
}

}  // namespace ravnest::train
