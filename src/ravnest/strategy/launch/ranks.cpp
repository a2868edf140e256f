#include "ravnest/strategy/launch/ranks.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/net/background_tasks.h"

namespace ravnest::strategy {
namespace {

using transport::PeerChange;
using transport::PeerState;

// It is interrupted where something is to be done sooner.
constexpr Duration kLookEvery = std::chrono::milliseconds(500);
constexpr Duration kPollInterval = std::chrono::milliseconds(50);

// "rank 3 (10.0.0.2)".
std::string shown_rank(const Met& met, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  const std::string host = index < met.hosts.size() ? met.hosts[index] : "";
  return host.empty() ? text("rank ", rank) : text("rank ", rank, " (", host, ")");
}

std::vector<std::string> all_shown(const Met& met) {
  std::vector<std::string> all;
  for (int rank = 0; rank < met.world; ++rank) all.push_back(shown_rank(met, rank));
  return all;
}

}  // namespace

Ranks::Ranks(Met met, RanksOptions options)
    : met_(std::move(met)),
      log_(std::move(options.log)),
      ending_(met_.rank, all_shown(met_)),
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

std::string Ranks::shown(int rank) const { return shown_rank(met_, rank); }

void Ranks::at_step(std::uint64_t step) {
  const MutexLock lock(mutex_);
  ending_.at_step(step);
}

void Ranks::on_failure(std::function<void(const Status& why)> call) {
  std::optional<Status> failed;
  {
    const MutexLock lock(mutex_);
    failed = ending_.outcome();
    if (!failed) on_failure_ = call;
  }
  if (failed && call) call(*failed);
}

Status Ranks::status() const {
  const MutexLock lock(mutex_);
  return ending_.outcome().value_or(Status());
}

// The thread may be about to wait for longer than what has begun needs: so it is interrupted.
Status Ranks::fail(const std::string& reason) { return end(text(shown(met_.rank), " ", reason)); }

Status Ranks::end(const std::string& sentence) {
  const MutexLock lock(mutex_);
  if (!leaving_) tell(ending_.fail(sentence, clock_.now()));
  met_.endpoint->interrupt();
  return wait_for_end();
}

Status Ranks::why(const Status& seen, const Poll& poll) {
  MutexLock lock(mutex_);
  if (!leaving_) tell(ending_.broke(seen, clock_.now()));
  met_.endpoint->interrupt();
  const auto ended = [&]() RAVNEST_REQUIRES(mutex_) { return ending_.outcome() || leaving_; };
  while (poll && !changed_.wait_until(mutex_, clock_.now() + kPollInterval, ended)) {
    lock.unlock();
    const Status polled = poll();
    lock.lock();
    if (!polled.ok()) return polled;
  }
  return wait_for_end();
}

Status Ranks::leave(TimePoint deadline) {
  {
    const MutexLock lock(mutex_);
    if (ending_.has_begun()) (void)wait_for_end();
    leaving_ = true;
  }
  Status closed = met_.endpoint->close(deadline);
  changed_.notify_all();
  const Status ended = status();
  return ended.ok() ? closed : ended;
}

// -- the thread that receives

void Ranks::run() {
  while (!stopping_) {
    TimePoint until = clock_.now() + kLookEvery;
    {
      const MutexLock lock(mutex_);
      until = std::min(until, ending_.wakes_at());
    }
    auto event = met_.endpoint->receive(until);
    if (event.status().code() == Code::kCancelled) return;
    if (event.ok()) {
      const MutexLock lock(mutex_);
      handle(*std::move(event));
    }
    look();
  }
}

void Ranks::handle(transport::Event event) {
  const auto from = rank_of(event.peer);
  if (!from) return;
  if (const auto* message = std::get_if<wire::Message>(&event.what)) {
    if (const auto* failed = std::get_if<wire::Failed>(message)) tell(ending_.on_failed(*from, *failed, clock_.now()));
    return;
  }
  const auto& change = std::get<PeerChange>(event.what);
  switch (change.state) {
    case PeerState::kLeft: return tell(ending_.on_left(*from, clock_.now()));
    case PeerState::kLost:
      log_.info(rank_name(*from), " is lost: ", change.reason);
      if (!leaving_) tell(ending_.on_lost(*from, clock_.now()));
      return;
    case PeerState::kUp: return ending_.on_connection(*from, false);
    case PeerState::kDown: return ending_.on_connection(*from, true);
    case PeerState::kWaiting:
    case PeerState::kSlow: return;
  }
}

void Ranks::tell(const RankEnding::ToTell& reason) {
  if (!reason) return;
  for (int rank = 0; rank < met_.world; ++rank) {
    if (rank == met_.rank) continue;
    const Status sent = met_.endpoint->send(rank_name(rank), *reason, transport::Priority::kUrgent);
    if (!sent.ok()) ending_.on_unreachable(rank);
  }
}

// Calls on_failure once the ranks agree.
void Ranks::look() {
  std::function<void(const Status&)> call;
  std::optional<Status> outcome;
  {
    const MutexLock lock(mutex_);
    tell(ending_.on_time(clock_.now()));
    outcome = ending_.outcome();
    if (outcome) call = std::exchange(on_failure_, {});
  }
  if (!outcome) return;
  if (call) call(*outcome);
  changed_.notify_all();
}

// Bounded: the thread finishes what has begun, and `leave` ends it.
Status Ranks::wait_for_end() {
  changed_.wait(mutex_, [&]() RAVNEST_REQUIRES(mutex_) { return ending_.outcome() || leaving_; });
  return ending_.outcome().value_or(cancelled("this rank has left the run"));
}

}  // namespace ravnest::strategy
