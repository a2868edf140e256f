#include "ravnest/train/node/node_uploads.h"

#include <exception>
#include <utility>

#include "ravnest/base/clock.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"

namespace ravnest::train {
namespace {

// One that is sent, and one that waits for it.
constexpr std::size_t kMostOnTheirWay = 2;

// Others wait for a word of it, whatever becomes of it.
Status without_throwing(const std::function<Status()>& upload) {
  try {
    return upload();
  } catch (const std::exception& error) {
    return internal(error.what());
  }
}

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
  const Status sent = without_throwing([&] { return store_.upload_part(checkpoint, file); });
  if (sent.code() == Code::kCancelled) return;  // the run ends, and not well
  wire::PartUploaded said{checkpoint, {}};
  if (!sent.ok())
    said.failure = text(sent.message(), ". There `", store_.command_to_upload(checkpoint), "` makes up for it");
  options_.tell_root(std::move(said));
}

// -- at the root

void NodeUploads::complete(checkpoint::Manifest manifest, std::set<std::uint32_t> others) {
  const std::uint64_t checkpoint = manifest.updates;
  Said said;
  {
    const MutexLock lock(mutex_);
    Arriving& arriving = arriving_[checkpoint];
    arriving.manifest = std::move(manifest);
    arriving.awaited = arriving.others = std::move(others);
    on_their_way_.insert(checkpoint);
    for (const std::string& why : std::exchange(arriving.untold, {})) fail(checkpoint, why, said);
    finish_if_all_is_up(checkpoint, said);
  }
  say(said);
}

void NodeUploads::complete_at(std::uint32_t leads, std::uint64_t checkpoint) {
  Said said;
  {
    const MutexLock lock(mutex_);
    Arriving& arriving = arriving_[checkpoint];
    arriving.leads = leads;
    on_their_way_.insert(checkpoint);
    for (const std::string& why : std::exchange(arriving.untold, {})) fail(checkpoint, why, said);
    finish_if_all_is_up(checkpoint, said);
  }
  say(said);
}

void NodeUploads::on_part(int from, const wire::PartUploaded& uploaded) {
  Said said;
  {
    const MutexLock lock(mutex_);
    Arriving& arriving = arriving_[uploaded.checkpoint];
    if (uploaded.failure) {
      const std::string why = text(options_.nodes[static_cast<std::size_t>(from)], ": ", *uploaded.failure);
      if (arriving.manifest || arriving.leads)
        fail(uploaded.checkpoint, why, said);
      else
        arriving.untold.push_back(why);
    } else {
      arriving.stages.insert(from);
      finish_if_all_is_up(uploaded.checkpoint, said);
    }
  }
  say(said);
}

void NodeUploads::on_cluster(std::uint32_t from, const wire::PartUploaded& uploaded) {
  Said said;
  {
    const MutexLock lock(mutex_);
    const auto found = arriving_.find(uploaded.checkpoint);
    if (found == arriving_.end()) return;
    Arriving& arriving = found->second;
    if (arriving.leads == from) {
      // Of one that is given up, others of the own stages may still have something to tell.
      arriving.failed = uploaded.failure.has_value();
      is_over(uploaded.checkpoint);
      if (!arriving.failed) arriving_.erase(arriving_.begin(), std::next(found));
    } else if (arriving.others.contains(from) && uploaded.failure) {
      fail(uploaded.checkpoint, printable_reason(*uploaded.failure), said);
    } else if (arriving.others.contains(from)) {
      arriving.awaited.erase(from);
      finish_if_all_is_up(uploaded.checkpoint, said);
    }
  }
  say(said);
}

void NodeUploads::on_cluster_gone(std::uint32_t cluster) {
  Said said;
  {
    const MutexLock lock(mutex_);
    for (auto& [checkpoint, arriving] : arriving_) {
      if (arriving.failed) continue;
      if (arriving.awaited.contains(cluster))
        fail(checkpoint, text(options_.name_of(cluster), " was lost before its parts were there"), said);
      if (arriving.leads != cluster) continue;
      said.lines.push_back(text("whether the checkpoint of update ", checkpoint, " is in ", store_.name(),
                                " is not known here: ", options_.name_of(cluster),
                                ", which puts its manifest, was lost"));
      arriving.failed = true;
      is_over(checkpoint);
    }
  }
  say(said);
}

// It is complete on the nodes.
void NodeUploads::fail(std::uint64_t checkpoint, const std::string& why, Said& said) {
  Arriving& arriving = arriving_[checkpoint];
  // Who puts the manifest has the line, and tells all that it will not be there.
  if (arriving.leads) {
    said.to_clusters.emplace_back(*arriving.leads, wire::PartUploaded{checkpoint, why});
    return;
  }
  said.lines.push_back(not_there(checkpoint, why));
  if (std::exchange(arriving.failed, true)) return;
  for (const std::uint32_t other : arriving.others)
    said.to_clusters.emplace_back(other, wire::PartUploaded{checkpoint, why});
  is_over(checkpoint);
}

void NodeUploads::finish_if_all_is_up(std::uint64_t checkpoint, Said& said) {
  const auto found = arriving_.find(checkpoint);
  Arriving& arriving = found->second;
  if (arriving.failed || arriving.stages.size() < options_.nodes.size()) return;
  if (arriving.leads) said.to_clusters.emplace_back(*arriving.leads, wire::PartUploaded{checkpoint, {}});
  if (!arriving.manifest || !arriving.awaited.empty()) return;
  uploader_.add([this, manifest = std::move(*arriving.manifest), others = std::move(arriving.others)] {
    send_manifest(manifest, others);
  });
  // Of earlier ones, too, that were given up on the way.
  arriving_.erase(arriving_.begin(), std::next(found));
}

void NodeUploads::send_manifest(const checkpoint::Manifest& manifest, const std::set<std::uint32_t>& others) {
  Status unpruned;
  const Status sent = without_throwing([&] { return store_.upload_manifest(manifest, options_.retention, unpruned); });
  Said said;
  if (!sent.ok() && sent.code() != Code::kCancelled) {
    said.lines.push_back(
        not_there(manifest.updates, text(options_.nodes.front(), ": ", sent.message(), ". There `",
                                         store_.command_to_upload(manifest.updates), "` makes up for it")));
  }
  if (!unpruned.ok()) said.lines.push_back(text("an older checkpoint could not be removed: ", unpruned.message()));
  wire::PartUploaded told{manifest.updates, {}};
  if (!sent.ok()) told.failure = sent.message();
  for (const std::uint32_t other : others) said.to_clusters.emplace_back(other, told);
  say(said);  // first: who waits for this checkpoint may end as soon as it is over
  const MutexLock lock(mutex_);
  is_over(manifest.updates);
}

void NodeUploads::is_over(std::uint64_t checkpoint) {
  on_their_way_.erase(checkpoint);
  changed_.notify_all();
}

void NodeUploads::say(const Said& said) const {
  for (const std::string& line : said.lines) options_.warn(line);
  for (const auto& [cluster, uploaded] : said.to_clusters) options_.tell_cluster(cluster, uploaded);
}

std::string NodeUploads::not_there(std::uint64_t checkpoint, const std::string& why) const {
  return text("the checkpoint of update ", checkpoint, " is on the nodes, but not in ", store_.name(), ": ", why);
}

bool NodeUploads::is_behind() const {
  const MutexLock lock(mutex_);
  return on_their_way_.size() >= kMostOnTheirWay;
}

void NodeUploads::settle() {
  if (uploader_.is_idle_by(SystemClock().now() + kSayOfUploadsAfter)) return;
  say_that_it_waits();
  uploader_.wait_until_idle();
}

bool NodeUploads::is_up_by(TimePoint deadline) const {
  const MutexLock lock(mutex_);
  return changed_.wait_until(mutex_, deadline, [&]() RAVNEST_REQUIRES(mutex_) { return on_their_way_.empty(); });
}

void NodeUploads::say_that_it_waits() const { options_.warn(text("waits until its checkpoint is in ", store_.name())); }

}  // namespace ravnest::train
