// What others ask of a driver, from any thread: passes, rounds, and to wait until something is reached.
#include <algorithm>

#include "ravnest/cluster/driver.h"

namespace ravnest::cluster {

Status Driver::offer(const stage::Offer& offer, std::vector<wire::EdgeTensor> model_inputs, TimePoint deadline) {
  const std::size_t most = std::max<std::size_t>(options_.offered_most, 1);
  {
    const MutexLock lock(mutex_);
    Status room = wait_for(
        deadline, [&]() RAVNEST_REQUIRES(mutex_) { return unbegun_ < most; },
        [&]() RAVNEST_REQUIRES(mutex_) { return text("no room for another pass; ", unbegun_, " wait to begin"); });
    if (!room.ok()) return room;
    requests_.emplace_back(offer, std::move(model_inputs));
    // The cluster trains on, so the round that was to be its last is not: `finish_rounds` has to be said anew.
    if (offer.kind == wire::PassKind::kTrain) last_round_ = LastRound::kNotAsked;
    // Here, not only by the compute thread in its next turn: whoever offers and drains at once has to wait for this.
    ++unbegun_;
    drained_ = false;
  }
  endpoint_.interrupt();
  return {};
}

void Driver::average() {
  if (options_.averaging == nullptr) return;
  {
    const MutexLock lock(mutex_);
    average_ = true;
    drained_ = false;
  }
  endpoint_.interrupt();
}

void Driver::post(int stage, wire::Checkpointing checkpointing) {
  post(options_.nodes[static_cast<std::size_t>(stage)], std::move(checkpointing));
}

void Driver::post(const std::string& node, wire::Checkpointing checkpointing) {
  {
    const MutexLock lock(mutex_);
    posted_.emplace_back(node, std::move(checkpointing));
  }
  endpoint_.interrupt();
}

Status Driver::drain(TimePoint deadline) {
  const MutexLock lock(mutex_);
  return wait_for(
      deadline, [&]() RAVNEST_REQUIRES(mutex_) { return drained_; },
      [] { return std::string("passes are still in flight"); });
}

Status Driver::finish_rounds(TimePoint deadline) {
  if (options_.averaging == nullptr) return drain(deadline);
  // That it holds stays so until the cluster trains on: asked for again, there is nothing to wait for.
  {
    const MutexLock lock(mutex_);
    if (last_round_ == LastRound::kNotAsked) last_round_ = LastRound::kAsked;
  }
  endpoint_.interrupt();
  const MutexLock lock(mutex_);
  return wait_for(
      deadline, [&]() RAVNEST_REQUIRES(mutex_) { return last_round_ == LastRound::kHolds; },
      [] { return std::string("the last round with the other clusters is not over"); });
}

Status Driver::catch_up(std::uint64_t updates, TimePoint deadline) {
  const MutexLock lock(mutex_);
  return wait_for(
      deadline, [&]() RAVNEST_REQUIRES(mutex_) { return updates_contained_ >= updates; },
      [&]() RAVNEST_REQUIRES(mutex_) {
        return text("the weights contain ", updates_contained_, " updates of ", updates);
      });
}

// After `stop` nothing is reached any more, but what the run ends with: all stages have to agree on that first.
Status Driver::wait_for(TimePoint deadline, const std::function<bool()>& reached,
                        const std::function<std::string()>& what) {
  const bool ended = changed_.wait_until(mutex_, deadline,
                                         [&]() RAVNEST_REQUIRES(mutex_) { return failure_ || (!stop_ && reached()); });
  if (failure_) return *failure_;
  if (ended) return {};
  return ravnest::deadline(stop_ ? std::string("the run is being ended") : what());
}

void Driver::finish(wire::Task task, bool goes_on) {
  {
    const MutexLock lock(mutex_);
    finish_.emplace(std::move(task), goes_on);
  }
  endpoint_.interrupt();
}

void Driver::stop(std::string reason) {
  {
    const MutexLock lock(mutex_);
    if (!stop_) stop_ = std::move(reason);  // the first reason holds
  }
  changed_.notify_all();
  endpoint_.interrupt();
}

DriverStatistics Driver::statistics() const {
  const MutexLock lock(mutex_);
  return published_;
}

std::vector<std::string> Driver::waiting_for() const {
  const MutexLock lock(mutex_);
  return waiting_for_;
}

}  // namespace ravnest::cluster
