// How a node makes checkpoints, and goes on from one.
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/train/node/node.h"
#include "ravnest/train/node/node_outcome.h"

namespace ravnest::train {
namespace {

constexpr Duration kAskEvery = std::chrono::milliseconds(50);

}  // namespace

void Node::make_checkpoints(worker::ModelWorkerOptions& worker, cluster::DriverOptions& driver) {
  worker.scheduled = training_options_.scheduled;
  worker.criterion_state = training_options_.criterion_state;
  driver.on_checkpointing = [this](int from, wire::Checkpointing checkpointing) {
    return on_checkpointing(from, std::move(checkpointing));
  };
  driver.on_other_cluster = [this](const std::string& node, wire::Checkpointing checkpointing) {
    return on_other_cluster(node, std::move(checkpointing));
  };
  driver.on_gone_elsewhere = [this](const std::string& node) { on_gone_elsewhere(node); };
  if (!training_options_.checkpoints.wanted()) return;
  NodeCheckpointsOptions options;
  options.checkpoints = training_options_.checkpoints;
  options.plan = plan_.id;
  options.nodes = nodes_;
  options.stage = stage_;
  options.cluster = static_cast<std::uint32_t>(cluster_);
  options.clusters = static_cast<std::uint32_t>(plan_.clusters.size());
  options.post = [this](int stage, wire::Checkpointing said) { driver_->post(stage, std::move(said)); };
  options.mark = [this](std::uint64_t checkpoint) { return record_->mark(checkpoint); };
  options.warn = [this](const std::string& line) { warn(line); };
  if (has_rounds()) make_round_checkpoints(options, driver);
  checkpoints_ = std::make_unique<NodeCheckpoints>(std::move(options));
  due_ = checkpoint::Due(training_options_.checkpoints.every);
  due_.begin(0, 0, SystemClock().now());
  worker.on_snapshot = [this](worker::Snapshot snapshot) { checkpoints_->take(std::move(snapshot)); };
  driver.on_end = [this](wire::Task& task) -> Status {
    if (!task.checkpoints || !task.checkpoints->run.empty()) return {};  // or other clusters have chosen, too
    auto chosen = checkpoints_->choose(ready_);
    if (!chosen.ok()) return chosen.status();
    task.checkpoints = std::move(*chosen);
    return {};
  };
}

Status Node::begin_run(const std::map<std::string, std::string>& settings, const Poll& poll) {
  if (!checkpoints_ || run_begun_) return {};
  run_begun_ = true;
  std::map<std::string, std::string> all = settings;
  all.merge(this->settings());
  all["window"] = std::to_string(window());
  checkpoints_->set_settings(std::move(all));
  Result<std::vector<wire::ReadableCheckpoint>> readable = std::vector<wire::ReadableCheckpoint>();
  const Status looked = while_polling(
      *checkpoints_, [&] { readable = checkpoints_->readable(); }, poll);
  if (!looked.ok()) return looked;
  if (!readable.ok()) return readable.status();
  const CheckpointOptions& wanted = training_options_.checkpoints;
  wire::Ready ready{.call = "train", .settings = {}, .checkpoints = std::move(*readable)};
  ready.settings.push_back({"checkpoint", checkpoint::words(wanted.every)});
  ready.settings.push_back({"resume", wanted.resume.empty() ? "no" : wanted.resume});
  ready.settings.push_back({"the object storage of checkpoints", checkpoints_->object_storage()});
  choosing_ = is_root() && has_rounds();
  if (Status begun = begin_call(std::move(ready), /*trains=*/false); !begun.ok()) return begun;
  wire::Task task;
  task.checkpoints.emplace();  // the driver has the last word on it
  if (is_root() && has_rounds()) {
    auto chosen = choose_with_others(poll);
    if (!chosen.ok()) return chosen.status();
    task.checkpoints = std::move(*chosen);
  }
  const auto closed = is_root() ? finish(std::move(task), /*goes_on=*/false, poll) : serve(poll);
  if (!closed.ok()) return closed.status();
  if (Status removed = checkpoints_->remove_later(); !removed.ok()) return removed;
  const auto& resumed = checkpoints_->resumed();
  if (round_checkpoints_) round_checkpoints_->begin(position_, resumed ? resumed->updates : 0, SystemClock().now());
  if (resumed) {
    warn(text("goes on from the checkpoint of update ", resumed->updates, " in ", checkpoints_->source_name()));
    const auto changes = is_root() ? checkpoints_->what_changed(options_kept_) : std::nullopt;
    if (changes) warn(*changes);
  }
  return {};
}

Status while_polling(NodeCheckpoints& checkpoints, const std::function<void()>& work,
                     const std::function<Status()>& poll) {
  bool done = false;
  Mutex mutex;
  ConditionVariable changed;
  std::thread worker([&] {
    work();
    const MutexLock lock(mutex);
    done = true;
    changed.notify_all();
  });
  // `poll` may throw.
  struct Join {
    NodeCheckpoints& checkpoints;
    std::thread& thread;
    bool is_over = false;
    ~Join() {
      if (!is_over) checkpoints.stop();
      thread.join();
    }
  } join{checkpoints, worker};
  for (;;) {
    if (Status polled = poll ? poll() : Status(); !polled.ok()) return polled;
    const MutexLock lock(mutex);
    const auto is_done = [&]() RAVNEST_REQUIRES(mutex) { return done; };
    join.is_over = changed.wait_until(mutex, SystemClock().now() + kAskEvery, is_done);
    if (join.is_over) return {};
  }
}

// On the compute thread, before anything is computed.
Status Node::go_on_from(const wire::CheckpointRun& run) {
  const checkpoint::TensorNames names = checkpoint::tensor_names(engine_);
  auto part = checkpoints_->begin(run, names.weights, names.buffers);
  if (!part.ok()) return part.status();
  if (!*part) return {};
  const checkpoint::Manifest& from = *checkpoints_->resumed();
  reach(from.position.epoch);
  options_kept_ = worker_->options_kept(**part);
  const std::uint64_t updates = from.position.updates > 0 ? from.position.updates : from.updates;
  if (Status restored = worker_->restore(**part, updates); !restored.ok()) return restored;
  if (!is_root()) return {};
  driver_->go_on_after(from.position.passes);
  position_ = from.position;
  position_.updates = has_rounds() ? updates : 0;  // of several clusters each counts its own, a pipeline alone does not
  updates_ = updates;
  due_.begin(updates_, position_.epoch, SystemClock().now());
  record_->go_on({.updates = updates,
                  .accuracies = from.position.validations,
                  .window_loss = from.position.window_loss,
                  .accuracy = from.accuracy,
                  .trained = from.position.trained});
  return {};
}

const std::optional<checkpoint::Manifest>& Node::resumed() const {
  static const std::optional<checkpoint::Manifest> kNone;
  return checkpoints_ ? checkpoints_->resumed() : kNone;
}

// The pass that ends with the update after which there are `updates_`.
void Node::mark_if_due(stage::Offer& last_part) {
  if (!makes_checkpoints() || has_rounds()) return;  // with other clusters, rounds say when
  const TimePoint now = SystemClock().now();
  if (!due_.after_update(updates_, now) || checkpoints_->under_way()) return;
  last_part.checkpoint = updates_;
  checkpoints_->announce(updates_, position_);
  due_.made(updates_, position_.epoch, now);
}

// The epoch before is over, with its validation.
Status Node::take_snapshots_of_epoch(std::uint64_t epoch, const Poll& poll) {
  if (updates_ != due_.updates() && checkpoints_->is_behind()) {
    warn(text("makes no checkpoint of epoch ", epoch, ": earlier ones are still on their way to ",
              training_options_.checkpoints.folder.string()));
    return {};
  }
  position_.epoch = epoch;
  position_.index = 0;
  return take_snapshots(poll);
}

// Behind all that was fed. One that is under way goes first: parts would be of two.
Status Node::take_snapshots(const Poll& poll) {
  if (updates_ == due_.updates()) return {};
  const auto free = [&](TimePoint deadline) -> Status {
    if (checkpoints_->wait_for_last(deadline)) return {};
    // Where the run has failed meanwhile nobody tells of their part any more.
    if (const auto ended = outcome_->get(); ended && !ended->ok()) return ended->status();
    return ravnest::deadline("a checkpoint is being written");
  };
  if (Status waited = until(free, poll); !waited.ok()) return waited;
  checkpoints_->announce(updates_, position_);
  due_.made(updates_, position_.epoch, SystemClock().now());
  if (Status expected = record_->expect_checkpoint(updates_); !expected.ok()) return expected;
  const stage::Offer snapshot{
      .kind = wire::PassKind::kSnapshot, .batch = batches_++, .update = false, .checkpoint = updates_};
  return until([&](TimePoint deadline) { return driver_->offer(snapshot, {}, deadline); }, poll);
}

Status Node::on_checkpointing(int from, wire::Checkpointing checkpointing) {
  if (const auto* wanted = std::get_if<wire::EndWanted>(&checkpointing)) {
    if (!is_root()) return invalid("only the root ends a run");
    const std::string why = text(name_of(from), " ", printable(wanted->why));
    {
      const MutexLock lock(stop_mutex_);
      if (!end_wanted_) end_wanted_ = why;
    }
    // All clusters end together, so that the last round is one of all.
    for (const std::string& root : roots()) {
      if (root != name()) driver_->post(root, wire::EndWanted{why});
    }
    return {};
  }
  if (!checkpoints_) return invalid("it speaks of checkpoints, and this node was given none to make");
  return checkpoints_->on_message(from, std::move(checkpointing));
}

bool Node::want_end(const std::string& why) {
  if (!driver_ || !makes_checkpoints() || driver_->statistics().counts.forwards == 0) return false;
  driver_->post(0, wire::EndWanted{why});
  return true;
}

std::optional<std::string> Node::end_wanted() const {
  const MutexLock lock(stop_mutex_);
  return end_wanted_;
}

}  // namespace ravnest::train
