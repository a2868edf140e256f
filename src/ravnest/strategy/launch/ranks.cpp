#include "ravnest/strategy/launch/ranks.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "ravnest/net/background_tasks.h"

namespace ravnest::strategy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::PeerChange;
using transport::PeerState;

constexpr Duration kLookEvery = milliseconds(500);
// For all ranks to say why they end. One that hangs does not keep the others.
constexpr Duration kSettleTime = seconds(2);
// What breaks here because another rank has failed is heard of from there within this; where a connection is broken, it
// is most likely why, and the transport finds that out within the longer time.
constexpr Duration kHearsayTime = seconds(2);
constexpr Duration kDetectionTime = seconds(8);

}  // namespace

Ranks::Ranks(Met met, RanksOptions options)
    : met_(std::move(met)),
      log_(std::move(options.log)),
      ending_(met_.rank, met_.world),
      on_failure_(std::move(options.on_failure)) {
  thread_ = std::thread([this, early = std::move(met_.early)]() mutable {
    block_signals();
    for (transport::Event& event : early) {
      const MutexLock lock(mutex_);
      handle(std::move(event));
    }
    run();
  });
}

Ranks::~Ranks() {
  stopping_ = true;
  met_.endpoint->interrupt();
  if (thread_.joinable()) thread_.join();
}

std::string Ranks::shown(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  const std::string host = index < met_.hosts.size() ? met_.hosts[index] : "";
  return host.empty() ? text("rank ", rank) : text("rank ", rank, " (", host, ")");
}

void Ranks::on_failure(std::function<void(const Status& why)> call) {
  std::optional<Status> failed;
  {
    const MutexLock lock(mutex_);
    failed = failure_;
    if (!failed) on_failure_ = call;
  }
  if (failed && call) call(*failed);
}

Status Ranks::status() const {
  const MutexLock lock(mutex_);
  return failure_.value_or(Status());
}

Status Ranks::fail(const std::string& reason) {
  const MutexLock lock(mutex_);
  if (!failure_ && !leaving_) {
    begin(ending_.fail({.stage = static_cast<std::uint32_t>(met_.rank),
                        .lost = false,
                        .reason = text(shown(met_.rank), " ", reason)}));
  }
  return wait_for_end();
}

Status Ranks::why(const Status& seen) {
  const MutexLock lock(mutex_);
  const auto known = [&]() RAVNEST_REQUIRES(mutex_) { return ending_.begun() || !left_.empty() || leaving_; };
  const TimePoint began = clock_.now();
  while (!known() && clock_.now() < began + (has_broken_connection() ? kDetectionTime : kHearsayTime))
    changed_.wait_until(mutex_, clock_.now() + kLookEvery);
  if (!ending_.begun() && !leaving_) {
    const bool somebody_left = !left_.empty();
    const int about = somebody_left ? *left_.begin() : met_.rank;
    const std::string what = somebody_left ? text(" left at step ", step_.load(), ", while others still needed it")
                                           : text(" failed: ", seen.message());
    begin(ending_.fail(
        {.stage = static_cast<std::uint32_t>(about), .lost = somebody_left, .reason = text(shown(about), what)}));
  }
  return wait_for_end();
}

Status Ranks::leave(TimePoint deadline) {
  {
    const MutexLock lock(mutex_);
    if (ending_.begun() && !failure_) (void)wait_for_end();
    leaving_ = true;
  }
  Status closed = met_.endpoint->close(deadline);
  changed_.notify_all();
  const Status ended = status();
  return ended.ok() ? closed : ended;
}

bool Ranks::has_broken_connection() const {
  for (int rank = 0; rank < met_.world; ++rank) {
    const auto peer = met_.endpoint->statistics(rank_name(rank));
    if (peer.ok() && (peer->state == PeerState::kDown || peer->state == PeerState::kLost)) return true;
  }
  return false;
}

// -- the thread that receives

void Ranks::run() {
  while (!stopping_) {
    TimePoint until = clock_.now() + kLookEvery;
    {
      const MutexLock lock(mutex_);
      if (settle_by_ && !failure_) until = std::min(until, *settle_by_);
    }
    auto event = met_.endpoint->receive(until);
    if (event.status().code() == Code::kCancelled) return;
    if (event.ok()) {
      const MutexLock lock(mutex_);
      handle(*std::move(event));
    }
    finish_if_settled();
  }
}

void Ranks::handle(transport::Event event) {
  const auto from = rank_of(event.peer);
  if (!from) return;
  if (const auto* message = std::get_if<wire::Message>(&event.what)) {
    if (const auto* failed = std::get_if<wire::Failed>(message)) begin(ending_.on_failed(*from, *failed));
    return;
  }
  const auto& change = std::get<PeerChange>(event.what);
  if (change.state == PeerState::kLeft) {
    ending_.on_gone(*from);
    left_.insert(*from);
    changed_.notify_all();
  }
  if (change.state != PeerState::kLost) return;
  log_.info(rank_name(*from), " is lost: ", change.reason);
  ending_.on_gone(*from);
  if (leaving_) return;
  begin(ending_.fail({.stage = static_cast<std::uint32_t>(*from),
                      .lost = true,
                      .reason = text(shown(*from), " was lost at step ", step_.load())}));
}

// The ending has begun, if there is something to tell.
void Ranks::begin(std::optional<wire::Failed> tell) {
  if (!tell) return;
  settle_by_ = clock_.now() + kSettleTime;
  for (int rank = 0; rank < met_.world; ++rank) {
    if (rank == met_.rank) continue;
    // Who can't be told is gone already, or will be.
    const Status sent = met_.endpoint->send(rank_name(rank), *tell, transport::Priority::kUrgent);
    if (!sent.ok()) ending_.on_gone(rank);
  }
  // The thread may be waiting for longer than that.
  met_.endpoint->interrupt();
  changed_.notify_all();
}

void Ranks::finish_if_settled() {
  std::function<void(const Status&)> call;
  Status failure;
  {
    const MutexLock lock(mutex_);
    if (failure_ || !ending_.begun() || (!ending_.settled() && clock_.now() < *settle_by_)) return;
    const wire::Failed& reason = ending_.reason();
    failure = unavailable(reason.reason);
    if (reason.stage != static_cast<std::uint32_t>(met_.rank)) failure = failure.of_another();
    failure_ = failure;
    call = std::exchange(on_failure_, {});
  }
  if (call) call(failure);
  changed_.notify_all();
}

// Bounded: the thread finishes what has begun, and `leave` ends it.
Status Ranks::wait_for_end() {
  changed_.wait(mutex_, [&]() RAVNEST_REQUIRES(mutex_) { return failure_ || leaving_; });
  return failure_.value_or(cancelled("this rank has left the run"));
}

}  // namespace ravnest::strategy
