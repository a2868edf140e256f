#include "ravnest/train/node/node_checkpoints.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

#include "ravnest/base/random_id.h"
#include "ravnest/base/text.h"
#include "ravnest/checkpoint/assemble.h"
#include "ravnest/checkpoint/part_file.h"
#include "ravnest/checkpoint/verify.h"

namespace ravnest::train {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Manifest;
using wire::ReadableCheckpoint;

// "2026-11-19T12:00:00Z"
std::string now_in_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::string written(32, '\0');
  written.resize(std::strftime(written.data(), written.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return written;
}

bool same(const ReadableCheckpoint& a, const ReadableCheckpoint& b) { return a.run == b.run && a.updates == b.updates; }

bool has(const wire::Ready& ready, const ReadableCheckpoint& wanted) {
  return std::ranges::any_of(ready.checkpoints, [&](const ReadableCheckpoint& each) { return same(each, wanted); });
}

std::string in_words(const std::vector<ReadableCheckpoint>& checkpoints) {
  if (checkpoints.empty()) return "none";
  std::vector<std::string> updates;
  for (const ReadableCheckpoint& each : checkpoints) updates.push_back(std::to_string(each.updates));
  return text(updates.size() == 1 ? "that of update " : "those of updates ", join(updates));
}

}  // namespace

std::string part_name(std::uint32_t cluster, std::uint32_t clusters, int stage) {
  const std::string own = text("stage_", stage);
  return clusters == 1 ? own : text("cluster_", cluster, "_", own);
}

NodeCheckpoints::NodeCheckpoints(NodeCheckpointsOptions options)
    : options_(std::move(options)), writer_([this] { work(); }) {}

// What waits is not begun any more: it would be of a run that has failed.
NodeCheckpoints::~NodeCheckpoints() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  writer_.join();
}

// -- before anything is trained

Result<std::vector<Checkpoint>> NodeCheckpoints::candidates() const {
  const CheckpointOptions& wanted = options_.checkpoints;
  if (wanted.resume == "newest" || wanted.resume == "best") {
    auto listing = checkpoint::list_checkpoints(wanted.folder);
    if (!listing.ok()) return listing.status();
    for (const checkpoint::Unreadable& each : listing->unreadable) options_.warn(each.why.message());
    return std::move(listing->complete);
  }
  auto found = checkpoint::find_checkpoint(wanted.folder, wanted.resume);
  if (!found.ok()) return found.status();
  return std::vector<Checkpoint>{std::move(*found)};
}

bool NodeCheckpoints::is_readable(const Checkpoint& checkpoint, std::string& why) const {
  const bool same_plan = checkpoint.manifest.plan == options_.plan && checkpoint.manifest.strategy == "pipeline";
  checkpoint::VerifyOptions own;
  if (same_plan) own.parts = {part_name(options_.cluster, options_.clusters, options_.stage)};
  const Status whole = checkpoint::verified(checkpoint, own);
  if (!whole.ok()) why = whole.message();
  return whole.ok();
}

Result<std::vector<ReadableCheckpoint>> NodeCheckpoints::readable() {
  readable_.clear();
  if (options_.checkpoints.resume.empty()) return std::vector<ReadableCheckpoint>();
  auto candidates = this->candidates();
  if (!candidates.ok()) return candidates.status();
  std::vector<ReadableCheckpoint> said;
  for (Checkpoint& each : *candidates) {
    std::string why;
    if (!is_readable(each, why)) {
      options_.warn(text("the checkpoint of update ", each.manifest.updates, " is passed over: ", why));
      continue;
    }
    said.push_back({each.manifest.run, each.manifest.updates, each.manifest.accuracy});
    readable_.push_back(std::move(each));
  }
  return said;
}

Result<wire::CheckpointRun> NodeCheckpoints::choose(const std::vector<wire::Ready>& ready) const {
  std::vector<ReadableCheckpoint> common;
  bool any = false;
  for (const wire::Ready& each : ready) any = any || !each.checkpoints.empty();
  for (const ReadableCheckpoint& each : ready.front().checkpoints) {
    if (std::ranges::all_of(ready, [&](const wire::Ready& stage) { return has(stage, each); })) common.push_back(each);
  }
  const std::string& wanted = options_.checkpoints.resume;
  const std::string folder = options_.checkpoints.folder.string();
  if (common.empty() && any) {
    std::vector<std::string> who;
    for (std::size_t stage = 0; stage < ready.size(); ++stage)
      who.push_back(text(options_.nodes[stage], " can go on from ", in_words(ready[stage].checkpoints)));
    return not_found("no checkpoint can be read by all nodes: ", join(who, "; "),
                     ". Copy the parts that are missing to those nodes' folders, or begin anew without resume");
  }
  if (common.empty() && !wanted.empty()) {
    if (wanted != "newest")
      return not_found("there is no checkpoint in ", folder, " that ", wanted,
                       " could mean: begin anew without resume");
    options_.warn(text("there is no checkpoint in ", folder, " to go on from: the run begins anew"));
  }
  if (common.empty()) return wire::CheckpointRun{random_id(12), 0};
  const auto better = [&](const ReadableCheckpoint& a, const ReadableCheckpoint& b) {
    if (wanted == "best" && a.accuracy != b.accuracy) return a.accuracy < b.accuracy;
    return a.updates < b.updates;
  };
  const ReadableCheckpoint& chosen = *std::ranges::max_element(common, better);
  return wire::CheckpointRun{chosen.run, chosen.updates};
}

Result<std::optional<checkpoint::Part>> NodeCheckpoints::begin(const wire::CheckpointRun& run,
                                                               const std::set<std::string>& weights,
                                                               const std::set<std::string>& buffers) {
  run_ = run.run;
  const auto& folder = options_.checkpoints.folder;
  if (Status begun = checkpoint::begin_run(folder, run_, own_name()); !begun.ok()) return begun;
  if (run.updates == 0) return std::optional<checkpoint::Part>();
  const auto found = std::ranges::find_if(readable_, [&](const Checkpoint& each) {
    return each.manifest.run == run.run && each.manifest.updates == run.updates;
  });
  if (found == readable_.end())
    return internal("the root goes on from update ", run.updates, ", which this node did not speak of");
  resumed_ = found->manifest;
  if (Status removed = checkpoint::remove_newer(folder, run_, run.updates); !removed.ok()) return removed;
  {
    const MutexLock lock(mutex_);
    last_ = run.updates;
  }
  if (found->manifest.plan == options_.plan && found->manifest.strategy == "pipeline") {
    auto part = checkpoint::read_part_of(*found, part_name(options_.cluster, options_.clusters, options_.stage));
    if (!part.ok()) return part.status();
    return std::optional(std::move(*part));
  }
  const auto whole = checkpoint::read_whole(*found, options_.cluster);
  if (!whole.ok()) return whole.status();
  auto part = checkpoint::select(*whole, weights, buffers);
  if (!part.ok()) return part.status();
  return std::optional(std::move(*part));
}

// -- while it trains

bool NodeCheckpoints::under_way() const {
  const MutexLock lock(mutex_);
  return under_way_.has_value();
}

bool NodeCheckpoints::wait_for_last(TimePoint deadline) const {
  const MutexLock lock(mutex_);
  return changed_.wait_until(mutex_, deadline, [&]() RAVNEST_REQUIRES(mutex_) { return !under_way_.has_value(); });
}

void NodeCheckpoints::announce(std::uint64_t checkpoint, const checkpoint::DataPosition& position) {
  const MutexLock lock(mutex_);
  under_way_ = UnderWay{checkpoint, position, {}, {}};
}

void NodeCheckpoints::take(worker::Snapshot snapshot) {
  enqueue([this, taken = std::make_shared<worker::Snapshot>(std::move(snapshot))] { write(*taken); });
}

void NodeCheckpoints::write(const worker::Snapshot& snapshot) {
  checkpoint::Part part = snapshot.part;
  part.name = part_name(options_.cluster, options_.clusters, options_.stage);
  part.copy = options_.cluster;
  part.holder = own_name();
  part.run = run_;
  part.plan = options_.plan;
  part.updates = snapshot.checkpoint;
  const auto folder = checkpoint::checkpoint_folder(options_.checkpoints.folder, snapshot.checkpoint);
  const auto written = checkpoint::write_part(folder, part);
  wire::PartWritten said{snapshot.checkpoint, {}, {}};
  if (written.ok())
    said.part = encode(*written);
  else
    said.failure = written.status().message();
  if (is_root()) {
    const MutexLock lock(mutex_);
    if (under_way_ && under_way_->checkpoint == snapshot.checkpoint) under_way_->order = part.order;
  }
  options_.post(0, std::move(said));
}

Status NodeCheckpoints::on_message(int from, wire::Checkpointing checkpointing) {
  if (const auto* written = std::get_if<wire::PartWritten>(&checkpointing)) {
    if (!is_root()) return invalid("it tells of its part of a checkpoint, which only the root hears");
    return on_part(from, *written);
  }
  if (auto* over = std::get_if<wire::CheckpointOver>(&checkpointing)) {
    if (from != 0 || is_root()) return invalid("only the root says that a checkpoint is complete");
    enqueue([this, over = std::move(*over)] { on_over(over); });
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
    } else {
      under_way_.reset();
      changed_.notify_all();
    }
  }
  if (done) {
    enqueue(
        [this, complete_one = std::make_shared<UnderWay>(std::move(*done))] { complete(std::move(*complete_one)); });
    return {};
  }
  const std::string last =
      this->last() == 0 ? "there is none yet" : text("the last one is that of update ", this->last());
  options_.warn(text("no checkpoint of update ", written.checkpoint, ": ",
                     options_.nodes[static_cast<std::size_t>(from)], ": ", *written.failure, "; ", last));
  for (int stage = 1; stage < static_cast<int>(options_.nodes.size()); ++stage)
    options_.post(stage, wire::CheckpointOver{written.checkpoint, {}});
  return {};
}

void NodeCheckpoints::complete(UnderWay done) {
  Manifest manifest;
  manifest.run = run_;
  manifest.written = now_in_utc();
  manifest.strategy = "pipeline";
  manifest.plan = options_.plan;
  manifest.updates = done.checkpoint;
  manifest.world = options_.clusters;
  manifest.position = done.position;
  manifest.settings = options_.settings;
  manifest.order = std::move(done.order);
  for (auto& [stage, part] : done.parts) manifest.parts.push_back(std::move(part));
  if (const auto mark = options_.mark(done.checkpoint)) {
    manifest.position.validations = mark->accuracies;
    manifest.position.window_loss = mark->window_loss;
    manifest.accuracy = mark->accuracy;
  }
  const Status kept = keep(manifest);
  if (!kept.ok()) options_.warn(text("no checkpoint of update ", done.checkpoint, ": ", kept.message()));
  for (int stage = 1; stage < static_cast<int>(options_.nodes.size()); ++stage) {
    wire::CheckpointOver over{done.checkpoint, {}};
    if (kept.ok()) over.manifest = encode(manifest);
    options_.post(stage, std::move(over));
  }
  const MutexLock lock(mutex_);
  if (kept.ok()) last_ = done.checkpoint;
  under_way_.reset();
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
  const auto& wanted = options_.checkpoints;
  Status written = checkpoint::write_manifest(checkpoint::checkpoint_folder(wanted.folder, manifest.updates), manifest);
  if (!written.ok()) return written;
  if (Status pruned = checkpoint::prune(wanted.folder, run_, own_name(), wanted.retention); !pruned.ok())
    options_.warn(text("an older checkpoint could not be removed: ", pruned.message()));
  return {};
}

// -- the writing thread

void NodeCheckpoints::enqueue(std::function<void()> job) {
  const MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void NodeCheckpoints::settle() {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [&]() RAVNEST_REQUIRES(mutex_) { return jobs_.empty() && !busy_; });
}

std::uint64_t NodeCheckpoints::last() const {
  const MutexLock lock(mutex_);
  return last_;
}

void NodeCheckpoints::work() {
  for (;;) {
    std::function<void()> job;
    {
      const MutexLock lock(mutex_);
      changed_.wait(mutex_, [&]() RAVNEST_REQUIRES(mutex_) { return closing_ || !jobs_.empty(); });
      if (closing_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
    }
    try {
      job();
    } catch (const std::exception& error) {
      options_.warn(text("a checkpoint could not be written: ", error.what()));
    }
    job = {};  // lets go of the snapshot's weights
    const MutexLock lock(mutex_);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace ravnest::train
