#include "ravnest/train/node/node_checkpoints.h"

#include <ctime>
#include <exception>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"
#include "ravnest/checkpoint/part_file.h"

namespace ravnest::train {
namespace {

using checkpoint::Manifest;

// "2026-11-19T12:00:00Z"
std::string now_in_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::string written(32, '\0');
  written.resize(std::strftime(written.data(), written.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return written;
}

}  // namespace

std::string part_name(std::uint32_t cluster, std::uint32_t clusters, int stage) {
  const std::string own = text("stage_", stage);
  return clusters == 1 ? own : text("cluster_", cluster, "_", own);
}

NodeCheckpoints::NodeCheckpoints(NodeCheckpointsOptions options)
    : options_(std::move(options)),
      resume_(checkpoint::place_and_which(options_.checkpoints.folder, options_.checkpoints.resume)),
      writer_([this](const std::string& what) { options_.warn(text("a checkpoint could not be written: ", what)); }) {}

// What waits is not begun any more: it would be of a run that has failed.
NodeCheckpoints::~NodeCheckpoints() { stop(); }

std::string NodeCheckpoints::own_part() const {
  return is_pipeline() ? part_name(options_.cluster, options_.clusters, options_.stage) : "model";
}

void NodeCheckpoints::tell(int stage, wire::Checkpointing said) {
  if (options_.post)
    options_.post(stage, std::move(said));
  else
    static_cast<void>(on_message(0, std::move(said)));
}

bool NodeCheckpoints::under_way() const {
  if (is_behind()) return true;
  const MutexLock lock(mutex_);
  return under_way_.has_value();
}

bool NodeCheckpoints::wait_for_last(TimePoint deadline) const {
  const MutexLock lock(mutex_);
  return changed_.wait_until(mutex_, deadline, [&]() RAVNEST_REQUIRES(mutex_) { return !under_way_.has_value(); });
}

void NodeCheckpoints::announce(std::uint64_t checkpoint, const checkpoint::DataPosition& position) {
  const MutexLock lock(mutex_);
  under_way_ = UnderWay{checkpoint, position, {}, {}, {}};
}

void NodeCheckpoints::take(worker::Snapshot snapshot) {
  std::optional<std::uint64_t> before;
  {
    const MutexLock lock(mutex_);
    before = writing_;
    if (!before) writing_ = snapshot.checkpoint;
  }
  if (!before)
    return writer_.add([this, taken = std::make_shared<worker::Snapshot>(std::move(snapshot))] { write(*taken); });
  tell(0, wire::PartWritten{snapshot.checkpoint, {}, text("it still writes that of update ", *before)});
}

Result<checkpoint::PartEntry> NodeCheckpoints::write_part(const worker::Snapshot& snapshot) {
  checkpoint::Part part = snapshot.part;
  part.name = own_part();
  part.copy = options_.cluster;
  part.holder = own_name();
  part.run = run_;
  part.plan = options_.plan;
  part.updates = snapshot.checkpoint;
  const auto folder = store_->folder(snapshot.checkpoint);
  // Two runs that began at once, before either had a checkpoint.
  if (const auto there = checkpoint::read_manifest(folder); there.ok() && there->run != run_)
    return invalid(folder.string(), " is of run ", printable(there->run),
                   ", which writes there, too: give each run a folder of its own");
  return checkpoint::write_part(folder, part);
}

void NodeCheckpoints::write(const worker::Snapshot& snapshot) {
  const auto written = [&]() -> Result<checkpoint::PartEntry> {
    try {
      return write_part(snapshot);
    } catch (const std::exception& error) {
      return internal(error.what());  // the root waits for a word of this part
    }
  }();
  wire::PartWritten said{snapshot.checkpoint, {}, {}};
  if (written.ok())
    said.part = encode(*written);
  else
    said.failure = written.status().message();
  {
    const MutexLock lock(mutex_);
    writing_.reset();  // first: as soon as the root has heard of the part, another snapshot may come
    if (is_root() && under_way_ && under_way_->checkpoint == snapshot.checkpoint)
      under_way_->order = snapshot.part.order;
  }
  tell(0, std::move(said));
  if (written.ok() && uploads_) uploads_->upload(snapshot.checkpoint, written->file);
}

Status NodeCheckpoints::on_message(int from, wire::Checkpointing checkpointing) {
  if (const auto* written = std::get_if<wire::PartWritten>(&checkpointing)) {
    if (!is_root()) return invalid("it tells of its part of a checkpoint, which only the root hears");
    return on_part(from, *written);
  }
  if (const auto* uploaded = std::get_if<wire::PartUploaded>(&checkpointing)) {
    if (!is_root() || !uploads_) return invalid("it tells of its part in object storage, which only a root hears");
    uploads_->on_part(from, *uploaded);
  }
  if (auto* over = std::get_if<wire::CheckpointOver>(&checkpointing)) {
    if (from != 0 || is_root()) return invalid("only the root says that a checkpoint is complete");
    writer_.add([this, over = std::move(*over)] { on_over(over); });
  }
  return {};
}

Status NodeCheckpoints::on_part(int from, const wire::PartWritten& written) {
  std::optional<UnderWay> done;
  {
    const MutexLock lock(mutex_);
    if (!under_way_ || under_way_->checkpoint != written.checkpoint) return {};  // given up for another's sake
    if (!written.failure) {
      auto entry = checkpoint::decode_part_entry(written.part, "what it says of its part of a checkpoint");
      if (!entry.ok()) return invalid(entry.status().message());
      under_way_->parts.insert_or_assign(from, std::move(*entry));
      if (under_way_->parts.size() < options_.nodes.size()) return {};
      done = under_way_;
    }
  }
  if (done) {
    writer_.add(
        [this, complete_one = std::make_shared<UnderWay>(std::move(*done))] { complete(std::move(*complete_one)); });
    return {};
  }
  const std::string why = text(options_.nodes[static_cast<std::size_t>(from)], ": ", *written.failure);
  if (options_.clusters > 1)
    hand_in(written.checkpoint, unavailable(why));
  else
    give_up(written.checkpoint, why);
  return {};
}

void NodeCheckpoints::give_up(std::uint64_t checkpoint, const std::string& why) {
  {
    const MutexLock lock(mutex_);
    shares_.erase(checkpoint);
    if (!under_way_ || under_way_->checkpoint != checkpoint) return;
    under_way_.reset();
    changed_.notify_all();
  }
  const std::string last =
      this->last() == 0 ? "there is none yet" : text("the last one is that of update ", this->last());
  options_.warn(text("no checkpoint of update ", checkpoint, ": ", why, "; ", last));
  relay({checkpoint, {}});
}

// To the own stages.
void NodeCheckpoints::relay(const wire::CheckpointOver& over) {
  for (int stage = 1; stage < static_cast<int>(options_.nodes.size()); ++stage) options_.post(stage, over);
}

Manifest NodeCheckpoints::manifest_of(UnderWay done) const {
  Manifest manifest;
  manifest.run = run_;
  manifest.written = now_in_utc();
  manifest.strategy = options_.strategy;
  manifest.plan = options_.plan;
  manifest.updates = done.checkpoint;
  manifest.world = is_pipeline() ? options_.clusters : options_.world;
  manifest.position = done.position;
  manifest.settings = settings_;
  manifest.order = std::move(done.order);
  for (auto& [stage, part] : done.parts) manifest.parts.push_back(std::move(part));
  if (const auto mark = options_.mark(done.checkpoint)) {
    manifest.position.validations = mark->accuracies;
    manifest.position.window_loss = mark->window_loss;
    manifest.accuracy = mark->accuracy;
  }
  return manifest;
}

void NodeCheckpoints::complete(UnderWay done) {
  const std::uint64_t checkpoint = done.checkpoint;
  Share made = [&]() -> Share {
    try {
      return manifest_of(std::move(done));
    } catch (const std::exception& error) {
      return internal(error.what());  // others wait for a word of it
    }
  }();
  if (options_.clusters > 1) return hand_in(checkpoint, std::move(made));
  if (!made.ok()) return give_up(checkpoint, made.status().message());
  finish(*made);
}

// All parts are there.
void NodeCheckpoints::finish(const Manifest& manifest) {
  wire::CheckpointOver over{manifest.updates, {}};
  std::vector<std::uint32_t> participants;
  std::set<std::uint32_t> gone;
  {
    const MutexLock lock(mutex_);
    if (under_way_) participants = under_way_->participants;
    if (under_way_) gone = under_way_->gone;
  }
  const Status kept = [&]() -> Status {
    try {
      over.manifest = encode(manifest);
      Status written = keep(manifest);
      if (written.ok() && uploads_) upload_manifest(manifest, {participants.begin(), participants.end()}, gone);
      return written;
    } catch (const std::exception& error) {
      return internal(error.what());
    }
  }();
  if (!kept.ok()) {
    over.manifest.reset();
    options_.warn(text("no checkpoint of update ", manifest.updates, ": ", kept.message()));
  }
  relay(over);
  tell_clusters(over, participants);
  const MutexLock lock(mutex_);
  if (kept.ok()) last_ = manifest.updates;
  is_over(manifest.updates);
}

// Of those that are lost from here on, on_cluster_gone tells.
void NodeCheckpoints::upload_manifest(const Manifest& manifest, std::set<std::uint32_t> participants,
                                      const std::set<std::uint32_t>& gone) {
  participants.erase(options_.cluster);
  uploads_->complete(manifest, std::move(participants));
  for (const std::uint32_t cluster : gone) uploads_->on_cluster_gone(cluster);
}

// Another one may be under way by now.
void NodeCheckpoints::is_over(std::uint64_t checkpoint) {
  if (under_way_ && under_way_->checkpoint == checkpoint) under_way_.reset();
  changed_.notify_all();
}

void NodeCheckpoints::on_over(const wire::CheckpointOver& over) {
  if (!over.manifest) return;
  const auto manifest = checkpoint::decode_manifest(*over.manifest, "the manifest that the root has sent");
  Status kept = manifest.ok() ? keep(*manifest) : manifest.status();
  if (!kept.ok()) return options_.warn(text("no checkpoint of update ", over.checkpoint, " here: ", kept.message()));
  const MutexLock lock(mutex_);
  last_ = over.checkpoint;
}

Status NodeCheckpoints::keep(const Manifest& manifest) {
  Status unpruned;
  if (Status kept = store_->keep(manifest, options_.checkpoints.retention, unpruned); !kept.ok()) return kept;
  if (!unpruned.ok()) options_.warn(text("an older checkpoint could not be removed: ", unpruned.message()));
  return {};
}

void NodeCheckpoints::settle() {
  writer_.wait_until_idle();
  if (uploads_) uploads_->settle();
}

void NodeCheckpoints::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  stop_stores();
}

void NodeCheckpoints::stop_stores() {
  if (store_) store_->stop();
  if (another_) another_->stop();
}

bool NodeCheckpoints::is_stopped() const {
  const MutexLock lock(mutex_);
  return stopped_;
}

std::uint64_t NodeCheckpoints::last() const {
  const MutexLock lock(mutex_);
  return last_;
}

}  // namespace ravnest::train
