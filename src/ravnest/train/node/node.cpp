#include "ravnest/train/node/node.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "ravnest/base/file.h"
#include "ravnest/checkpoint/stage_file.h"
#include "ravnest/cluster/microbatches.h"
#include "ravnest/stage/routes.h"
#include "ravnest/train/node/call_sentences.h"
#include "ravnest/train/node/farewell.h"
#include "ravnest/train/node/node_outcome.h"
#include "ravnest/transport/tcp/endpoint.h"
#include "ravnest/worker/tensors.h"

namespace ravnest::train {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Between two polls of whoever waits.
constexpr Duration kPollEvery = milliseconds(50);
// Waiting is worth a word after the first, and again every second of these.
constexpr Duration kSayAfter = seconds(1);
constexpr Duration kSayEvery = seconds(5);
// For a node that is started anew with the right plan.
constexpr Duration kStrangersAfter = seconds(5);
// For the last messages to arrive. Where the run has failed everyone has heard of it already.
constexpr Duration kGoodbyeTime = seconds(2);
constexpr Duration kShortGoodbyeTime = milliseconds(100);

// Clusters may run in one folder: the files of all but the first have its number in their names.
std::filesystem::path of_cluster(const std::filesystem::path& file, int cluster) {
  if (file.empty()) return file;
  return file.parent_path() / text(file.stem().string(), "_cluster_", cluster, file.extension().string());
}

// A pass is expected before it is offered, since its report may come at once. Where it can't be offered, or `poll`
// throws, it no longer is.
class Expectation {
 public:
  Expectation(RunRecord& record, const stage::Offer& offer) : record_(&record) { record.expect(offer, offer.samples); }
  Expectation(const Expectation&) = delete;
  Expectation& operator=(const Expectation&) = delete;
  ~Expectation() {
    if (record_ != nullptr) record_->retract();
  }
  void keep() { record_ = nullptr; }

 private:
  RunRecord* record_;
};

}  // namespace

void Node::configure(TrainingOptions training_options) {
  training_options_ = std::move(training_options);
  if (cluster_ > 0) {
    for (auto* file : {&training_options_.record.loss_file, &training_options_.record.accuracy_file})
      *file = of_cluster(*file, cluster_);
  }
  training_options_.record.leaf = nodes_.back();
  training_options_.record.warn = [this](const std::string& line) { warn(line); };
  record_ = std::make_unique<RunRecord>(training_options_.record);
  remove_unfinished(checkpoint::stage_file(options_.trained, cluster_, name()));  // of a run that was killed
  worker::ModelWorkerOptions worker;
  worker.seed = training_options_.seed;
  worker.codec = training_options_.codec;
  worker.recompute = training_options_.pipeline.recompute;
  worker.schedule = training_options_.pipeline.schedule;
  worker.criterion = training_options_.criterion;
  worker.before_update = [this](std::uint64_t epoch) { reach(epoch); };
  worker.on_update = training_options_.on_update;
  worker.on_gradients = training_options_.clipping();
  cluster::DriverOptions driver;
  driver.stage = place_;
  driver.stage.schedule = training_options_.pipeline.schedule;
  driver.stage.window = window();
  driver.nodes = nodes_;
  driver.log = options_.log;
  join_rounds(worker, driver);
  make_checkpoints(worker, driver);
  worker_ = std::make_unique<worker::ModelWorker>(engine_, std::move(training_options_.optimizer), std::move(worker));
  driver.on_over = [this](const wire::Task& task) -> Result<wire::Account> {
    if (task.checkpoints) {
      if (Status gone_on = go_on_from(*task.checkpoints); !gone_on.ok()) return gone_on;
    }
    return account_of(task);
  };
  if (is_root()) {
    driver.on_report = [this](wire::Report report) {
      if (Status taken = record_->on_report(std::move(report)); !taken.ok()) stop({text("failed: ", taken.message())});
    };
    driver.on_open = [this](const std::vector<wire::Ready>& ready) -> Status {
      ready_ = ready;
      if (Status alike = check_alike(ready, nodes_); !alike.ok()) return alike;
      if (makes_round_checkpoints() && choosing_.exchange(false)) offer_run(ready);
      return {};
    };
    driver.on_accounts = [this](const std::vector<wire::Account>& accounts) { return closing_of(accounts); };
  }
  driver_ = std::make_unique<cluster::Driver>(std::move(driver), *endpoint_, *worker_);
}

int Node::window() const {
  return training_options_.pipeline.window > 0 ? training_options_.pipeline.window
                                               : plan_.clusters[static_cast<std::size_t>(cluster_)].window;
}

void Node::warn(const std::string& line) const {
  if (training_options_.record.progress != nullptr)
    training_options_.record.progress->above(text(name(), ": ", line));
  else
    options_.log.warning(line);
}

Status Node::save() {
  const ir::Model model = engine_.model();
  const ir::StageInfo info = worker::stage_of(engine_);
  checkpoint::SavedStage saved;
  saved.plan = plan_.id;
  saved.run = run_;
  saved.node = name();
  saved.cluster = cluster_;
  saved.stage = stage_;
  saved.stages = stages();
  saved.updates = driver_ ? driver_->statistics().counts.updates : 0;
  saved.order = info.state_dict;
  saved.weights = model.weights;
  saved.nodes = nodes_;
  const std::filesystem::path file = checkpoint::stage_file(options_.trained, cluster_, name());
  Status written = checkpoint::save_stage(file, saved);
  if (written.ok()) options_.log.info("saved ", file.string());
  return written;
}

// -- calls

// What has to be the same on all nodes.
std::map<std::string, std::string> Node::settings_alike() const {
  std::map<std::string, std::string> settings = this->settings();
  const CheckpointOptions& checkpoints = training_options_.checkpoints;
  settings["checkpoint"] = checkpoints.wanted() ? checkpoint::words(checkpoints.every) : "none";
  return settings;
}

std::map<std::string, std::string> Node::settings() const {
  std::map<std::string, std::string> settings = training_options_.settings;
  settings["schedule"] = std::string(stage::name(training_options_.pipeline.schedule));
  settings["seed"] = std::to_string(training_options_.seed);
  settings["compression"] = codec::to_string(training_options_.codec);
  settings["clusters"] = std::to_string(plan_.clusters.size());
  return settings;
}

Status Node::begin(const std::string& call) {
  wire::Ready ready{.call = call, .settings = {}};
  for (const auto& [setting, value] : settings_alike()) ready.settings.push_back({setting, value});
  return begin_call(std::move(ready), call == "train");
}

Status Node::begin_call(wire::Ready ready, bool trains) {
  if (!endpoint_) return cancelled(name(), " has left its cluster");
  if (computing_.joinable())
    return invalid("another call is under way; it has to end before ", ready.call, "() begins");
  before_ = driver_->statistics();
  outcome_ = std::make_shared<Outcome>();
  waiting_since_ = SystemClock().now();
  said_ = waiting_since_ + kSayAfter - kSayEvery;
  transport::Endpoint* others = averager_ ? endpoint_.get() : nullptr;
  computing_ = std::thread([driver = driver_.get(), others, outcome = outcome_, ready = std::move(ready), trains] {
    at::init_num_threads();  // as many as this process was told, for kernels that ask OpenMP itself
    auto closed = driver->run(ready, trains);
    // The other clusters go on without this one: they see that it leaves.
    if (!closed.ok() && others != nullptr) (void)others->close(SystemClock().now() + kShortGoodbyeTime);
    const MutexLock lock(outcome->mutex);
    outcome->closed = std::move(closed);
    outcome->changed.notify_all();
  });
  return {};
}

Status Node::until(const std::function<Status(TimePoint)>& attempt, const Poll& poll) {
  for (;;) {
    Status status = attempt(SystemClock().now() + kPollEvery);
    if (status.code() != Code::kDeadline) return status;
    say_for_whom();
    look_for_strangers();
    if (poll) {
      if (Status polled = poll(); !polled.ok()) return polled;
    }
  }
}

void Node::say_for_whom() {
  const TimePoint now = SystemClock().now();
  if (now - said_ < kSayEvery) return;
  std::vector<std::string> missing = driver_->waiting_for();
  if (missing.empty()) missing = clusters_waited_for();
  if (missing.empty()) return;
  said_ = now;
  std::vector<std::string> described;
  for (const std::string& node : missing) {
    const auto peer = endpoint_->statistics(node);
    const std::string state =
        !peer.ok() || peer->state == transport::PeerState::kUp ? std::string() : text(" (", peer->reason, ")");
    described.push_back(node + state);
  }
  const auto waited = std::chrono::duration_cast<seconds>(now - waiting_since_).count();
  options_.log.info("waiting for ", join(described), waited > 5 ? text(", for ", waited, " s now") : "");
}

// A peer of another plan will never be one of this plan's, however long one waits.
void Node::look_for_strangers() {
  const TimePoint now = SystemClock().now();
  if (now - waiting_since_ < kStrangersAfter) return;
  for (const std::string& node : driver_->waiting_for()) {
    const auto peer = endpoint_->statistics(node);
    if (peer.ok() && peer->state == transport::PeerState::kWaiting &&
        peer->trouble == transport::PeerTrouble::kOtherPlan)
      return stop({text("failed: it cannot work with ", node, ": ", peer->reason)});
  }
}

// Waits for the compute thread, and gives its call's end.
Status Node::join_call(const Poll& poll) {
  Status status = until(
      [&](TimePoint deadline) -> Status {
        const MutexLock lock(outcome_->mutex);
        const bool ended = outcome_->changed.wait_until(
            outcome_->mutex, deadline,
            [&]() RAVNEST_REQUIRES(outcome_->mutex) { return outcome_->closed.has_value(); });
        return ended ? Status() : ravnest::deadline("the call is not over");
      },
      poll);
  if (!status.ok()) return status;
  computing_.join();
  return outcome_->get()->status();
}

Result<wire::Closed> Node::serve(const Poll& poll) {
  if (Status joined = join_call(poll); !joined.ok()) return joined;
  // That a checkpoint is complete was told just before the call was closed: whoever leaves now has its manifest.
  if (checkpoints_) checkpoints_->settle();
  wire::Closed closed = outcome_->get()->value();
  if (closed.unsaved) return unavailable(*closed.unsaved);
  return closed;
}

Result<std::uint64_t> Node::samples_of_all(const Batch& batch, const Poll& /*poll*/) {
  return cluster::samples_of(batch.inputs);
}

Status Node::feed(const Batch& batch, const Poll& poll) {
  const bool trains = batch.kind == wire::PassKind::kTrain;
  // What validated the epoch before has been fed by now.
  if (trains && makes_checkpoints() && !has_rounds() && batch.index == 0 && due_.after_epoch(batch.epoch)) {
    if (Status taken = take_snapshots_of_epoch(batch.epoch, poll); !taken.ok()) return taken;
  }
  const stage::Offer whole{.kind = batch.kind,
                           .batch = batches_,
                           .update = trains && (position_.trained + 1) % training_options_.update_frequency == 0,
                           .epoch = batch.epoch,
                           .index = batch.index,
                           .digest = batch.digest};
  std::vector<cluster::Microbatch> parts = cluster::cut_batch(whole, batch.inputs, training_options_.microbatches);
  if (trains) {
    position_.epoch = batch.epoch;
    position_.index = batch.index + 1;
    ++position_.trained;
    count_samples(position_, batch, cluster::samples_of(batch.inputs));
    position_.passes += parts.size();
    if (whole.update) ++updates_;
    if (whole.update) mark_if_due(parts.back().offer);
    if (round_checkpoints_) {
      position_.updates = updates_;
      round_checkpoints_->fed(position_);
    }
  } else if (batch.kind == wire::PassKind::kValidate) {
    sweeps_ = batch.epoch + 1;
  }
  for (const cluster::Microbatch& each : parts) {
    if (Status offered = offer(each, poll); !offered.ok()) return offered;
  }
  ++batches_;
  return {};
}

Status Node::offer(const cluster::Microbatch& part, const Poll& poll) {
  const std::vector<wire::EdgeTensor> edges = worker::model_inputs(part.inputs, /*host=*/true);
  Expectation expectation(*record_, part.offer);
  Status offered = until([&](TimePoint deadline) { return driver_->offer(part.offer, edges, deadline); }, poll);
  if (!offered.ok()) return offered;
  expectation.keep();
  return {};
}

Status Node::end_sweep(Sweep sweep) {
  position_.sweep = sweeps_;
  if (sweep == Sweep::kValidation) position_.validated = position_.trained;
  return record_->expect_end(sweep);
}

Status Node::drain(const Poll& poll) {
  return until([&](TimePoint deadline) { return driver_->drain(deadline); }, poll);
}

Result<wire::Closed> Node::finish(wire::Task task, bool goes_on, const Poll& poll) {
  const bool ends_training = makes_checkpoints() && !goes_on && (has_rounds() || updates_ > due_.updates());
  // Of an end before its time the epoch's validation may be missing: then the run goes on with that.
  if (ends_training && !ends_early_ && task.epochs > position_.epoch) {
    position_.epoch = task.epochs;
    position_.index = 0;
  }
  if (ends_training && has_rounds()) {
    if (Status finished = finish_with_others(poll); !finished.ok()) return finished;
    if (Status up = finish_uploads(poll); !up.ok()) return up;
  } else if (ends_training) {
    if (Status taken = take_snapshots(poll); !taken.ok()) return taken;
  }
  if (Status drained = drain(poll); !drained.ok()) return drained;
  driver_->finish(std::move(task), goes_on);
  auto closed = serve(poll);
  // Who was told to end when it was over already ends by itself.
  if (!goes_on) {
    const MutexLock lock(stop_mutex_);
    end_wanted_.reset();
  }
  return closed;
}

Result<wire::Closed> Node::finish_early(wire::Task task, const Poll& poll) {
  ends_early_ = true;
  task.save = false;
  return finish(std::move(task), /*goes_on=*/false, poll);
}

void Node::stop(Farewell farewell) {
  {
    const MutexLock lock(stop_mutex_);
    if (!stop_) stop_ = farewell;
  }
  if (checkpoints_) checkpoints_->stop();  // the compute thread may wait for its last upload
  if (driver_) driver_->stop(std::move(farewell.reason));
}

void Node::close() {
  const bool in_call = computing_.joinable();
  if (in_call) {
    stop({"ended in the middle of a call"});
    computing_.join();
  }
  const auto ended = outcome_ ? outcome_->get() : std::nullopt;
  const bool failed = ended && !ended->ok();
  // Of stages that were not saved the root has told everyone, and everyone fails of it.
  const bool all_know = failed || (ended && ended->value().unsaved);
  const std::optional<Farewell> why = [&] {
    const MutexLock lock(stop_mutex_);
    return stop_;
  }();
  const bool untold = why && !in_call && !all_know;
  if (endpoint_ && !untold) (void)endpoint_->close(SystemClock().now() + (failed ? kShortGoodbyeTime : kGoodbyeTime));
  averager_.reset();     // first: its thread tells of rounds that are for checkpoints
  checkpoints_.reset();  // before the driver, through which it speaks
  driver_.reset();
  worker_.reset();
  if (endpoint_ && untold) tell_why(options_.background.get(), std::move(endpoint_), nodes_, stage_, *why);
  endpoint_.reset();
  folder_.reset();
}

Node::~Node() { close(); }

}  // namespace ravnest::train
