// What a node says at the end of a call.
#include <utility>

#include "ravnest/train/node/call_sentences.h"
#include "ravnest/train/node/node.h"

namespace ravnest::train {

// A stage that can not be saved is no failure of the run yet: first all others save theirs.
wire::Account Node::account_of(const wire::Task& task) {
  reach(task.epochs);
  if (!task.run.empty()) run_ = task.run;
  wire::Account account;
  if (checkpoints_) checkpoints_->settle();
  if (task.save) {
    if (Status saved = save(); !saved.ok()) account.unsaved = saved.message();
  }
  account.work = work();
  return account;
}

void Node::reach(std::uint64_t epochs) {
  if (epochs <= epochs_) return;
  epochs_ = epochs;
  if (training_options_.on_epochs) training_options_.on_epochs(epochs);
}

wire::Closed Node::closing_of(const std::vector<wire::Account>& accounts) {
  if (checkpoints_) checkpoints_->settle();  // all parts have been heard of
  summaries_.clear();
  for (std::size_t stage = 0; stage < accounts.size(); ++stage) {
    const std::string_view role = plan::role(static_cast<int>(stage), stages());
    summaries_.push_back({nodes_[stage], std::string(role), accounts[stage].work});
  }
  wire::Closed closed{.accuracy = record_->accuracy(), .unsaved = sentence_of_unsaved(accounts, nodes_)};
  if (ends_early_) say_early_end(closed);
  return closed;
}

// Where there is no checkpoint to go on from, this is a failure: whoever starts the run anew is not to count on it.
void Node::say_early_end(wire::Closed& closed) const {
  const std::string why = end_wanted().value_or("it was asked to end");
  const std::uint64_t last = last_checkpoint();
  if (last > 0 && (has_rounds() ? last == kept_at_the_end_ : last == updates_)) {
    closed.ended_early = text(why, ": the run ends after the checkpoint of update ", last);
  } else {
    closed.unsaved = text(why, ": the run ends without a checkpoint of update ", updates_, "; ",
                          last == 0 ? "there is none" : text("the last one is that of update ", last));
  }
}

wire::NodeWork Node::work() const {
  const cluster::DriverStatistics now = driver_->statistics();
  wire::NodeWork work;
  work.running_s = now.running_s - before_.running_s;
  work.forward_s = now.forward_s - before_.forward_s;
  work.backward_s = now.backward_s - before_.backward_s;
  work.update_s = now.update_s - before_.update_s;
  work.passes = now.counts.backwards - before_.counts.backwards;
  work.updates = now.counts.updates - before_.counts.updates;
  const std::uint64_t stale = now.counts.staleness_sum - before_.counts.staleness_sum;
  work.staleness_mean = work.passes == 0 ? 0 : static_cast<double>(stale) / static_cast<double>(work.passes);
  work.staleness_most = now.counts.staleness_most;
  work.versions_most = worker_->versions_most();
  for (std::size_t stage = 0; stage < nodes_.size(); ++stage) {
    const auto peer = endpoint_->statistics(nodes_[stage]);
    if (!peer.ok()) continue;  // this node itself
    work.bytes_sent += peer->bytes_sent;
    work.bytes_received += peer->bytes_received;
    work.tensor_bytes_sent += peer->message_bytes_sent;
    if (static_cast<int>(stage) == this->stage() + 1) work.round_trip_s = peer->round_trip_s;
  }
  return work;
}

report::RunSummary Node::run_summary(double seconds, std::uint64_t samples, std::uint64_t epochs) const {
  report::RunSummary run;
  run.seconds = seconds;
  run.samples = samples;
  run.epochs = epochs;
  if (!summaries_.empty() && epochs > 0) run.updates_per_epoch = summaries_.front().work.updates / epochs;
  run.accuracy = record_->accuracy();
  run.bad_losses = record_->bad_losses();
  run.schedule = std::string(stage::name(training_options_.pipeline.schedule));
  run.window = window();
  if (training_options_.codec != codec::Codec()) run.compression = codec::to_string(training_options_.codec);
  run.nodes = summaries_;
  return run;
}

}  // namespace ravnest::train
