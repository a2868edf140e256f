#include "ravnest/collective/group.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "ravnest/base/check.h"

namespace ravnest::collective {
namespace {

using transport::Channel;
using transport::PeerChange;

// Of unused memory: about what a network holds before it is acknowledged.
constexpr std::uint64_t kPoolBytes = 64 << 20;

}  // namespace

Group::Group(transport::Endpoint& endpoint, std::vector<std::string> members, std::size_t self, GroupOptions options)
    : endpoint_(endpoint),
      self_(static_cast<std::uint32_t>(self)),
      options_(options),
      members_(endpoint, members, self),
      outbox_(endpoint, Channel::kAveraging),
      pool_(kPoolBytes) {
  if (self >= members.size() || members[self] != endpoint.name()) {
    broken_ = invalid(endpoint.name(), " is not member ", self, " of ", join(members));
  } else if (members.size() > 1) {
    catch_up();
  }
}

Status Group::all_reduce(std::span<float> values, TimePoint deadline, const ReduceOptions& options) {
  return run(Operation::kAllReduce, values, deadline, options);
}
Status Group::all_reduce(std::span<double> values, TimePoint deadline, const ReduceOptions& options) {
  return run(Operation::kAllReduce, values, deadline, options);
}
Status Group::all_reduce(std::span<std::int64_t> values, TimePoint deadline) {
  return run(Operation::kAllReduce, values, deadline);
}
Status Group::reduce_scatter(std::span<float> values, TimePoint deadline, const ReduceOptions& options) {
  return run(Operation::kReduceScatter, values, deadline, options);
}
Status Group::reduce_scatter(std::span<double> values, TimePoint deadline, const ReduceOptions& options) {
  return run(Operation::kReduceScatter, values, deadline, options);
}
Status Group::all_gather(std::span<float> values, TimePoint deadline) {
  return run(Operation::kAllGather, values, deadline);
}
Status Group::all_gather(std::span<double> values, TimePoint deadline) {
  return run(Operation::kAllGather, values, deadline);
}
Status Group::all_gather(std::span<std::byte> values, TimePoint deadline) {
  return run(Operation::kAllGather, values, deadline);
}
Status Group::broadcast(std::span<float> values, std::size_t root, TimePoint deadline) {
  return run(Operation::kBroadcast, values, deadline, {}, root);
}
Status Group::broadcast(std::span<double> values, std::size_t root, TimePoint deadline) {
  return run(Operation::kBroadcast, values, deadline, {}, root);
}
Status Group::broadcast(std::span<std::byte> values, std::size_t root, TimePoint deadline) {
  return run(Operation::kBroadcast, values, deadline, {}, root);
}

void Group::abort(const Status& why) {
  {
    const MutexLock lock(abort_mutex_);
    if (abort_reason_.ok()) abort_reason_ = why;
  }
  endpoint_.interrupt(Channel::kAveraging);
}

Status Group::abort_reason() const {
  const MutexLock lock(abort_mutex_);
  return abort_reason_;
}

Range Group::own_segment(std::size_t elements) const {
  return segment_range(elements, static_cast<std::uint32_t>(members_.count()), self_);
}

template <class T>
Status Group::run(Operation operation, std::span<T> values, TimePoint deadline, const ReduceOptions& reduce,
                  std::size_t root) {
  if (broken_.ok()) broken_ = abort_reason();
  if (!broken_.ok()) return broken_;
  if (root >= members_.count()) return invalid("there is no member ", root, " to broadcast from");
  ExchangeOptions options;
  options.ring = {.operation = operation,
                  .members = static_cast<std::uint32_t>(members_.count()),
                  .self = self_,
                  .root = static_cast<std::uint32_t>(root),
                  .chunk_elements = std::max<std::size_t>(options_.chunk_bytes / sizeof(T), 1)};
  options.round = round_;
  options.vector = options_.vector;
  options.scale = reduce.scale;
  options.codec = reduce.codec;
  options.residual = reduce.residual;
  RingDriver<T> driver(endpoint_, outbox_, pool_);
  driver.add(options, values, members_.previous(), members_.next());
  const Status status = drive(driver, deadline);
  ignored_ += driver.ignored();
  if (!status.ok()) {
    // An abort is the cause also where the call fails by what others did on hearing of it.
    broken_ = abort_reason();
    if (broken_.ok()) broken_ = status.with_context(text(operation, " ", round_));
  }
  ++round_;
  at_hand_.clear();
  if (auto kept = early_.extract(round_)) at_hand_ = std::move(kept.mapped());
  RAVNEST_CHECK(early_.empty() || early_.begin()->first > round_, "chunks of call ", early_.begin()->first,
                " are kept during call ", round_);
  return broken_;
}

template <class T>
Status Group::drive(RingDriver<T>& driver, TimePoint deadline) {
  while (!driver.complete()) {
    if (Status stopped = abort_reason(); !stopped.ok()) return stopped;
    if (Status flushed = outbox_.flush(); !flushed.ok()) return flushed;
    // What has come goes before what begins here, since other members wait for it: so where something may begin, this
    // only looks whether anything has come.
    const bool may_begin = driver.may_begin();
    // Who is gone matters when what it has sent is used up.
    Status received = at_hand_.empty() ? members_.ready() : Status();
    if (at_hand_.empty() && received.ok()) received = receive(may_begin ? TimePoint() : deadline);
    if (!at_hand_.empty()) {
      Status passed_on = driver.on_chunk(members_.previous(), std::move(at_hand_.front()));
      at_hand_.pop_front();
      if (!passed_on.ok()) return passed_on.with_context(members_.previous());
    } else if (received.code() == Code::kDeadline && may_begin) {
      if (Status begun = driver.begin(); !begun.ok()) return begun;
    } else if (received.code() == Code::kDeadline) {
      return ravnest::deadline("only ", driver.received(), " of ", driver.expected(),
                               " chunks had come when the time was over; ", members_.outlook());
    } else if (!received.ok()) {
      return received;
    }
    if (outbox_.dropped() > 0) return members_.next_is_gone();
  }
  return hand_over(deadline);
}

// A member that has all its values may still owe the next one some. Its caller may end the process after the call, so
// what it owes is given to the endpoint first.
Status Group::hand_over(TimePoint deadline) {
  while (!outbox_.has_room(members_.next(), transport::Priority::kBulk)) {
    if (Status stopped = abort_reason(); !stopped.ok()) return stopped;
    if (Status flushed = outbox_.flush(); !flushed.ok()) return flushed;
    if (outbox_.has_room(members_.next(), transport::Priority::kBulk)) break;
    const Status received = receive(deadline);
    if (received.code() == Code::kDeadline) {
      return ravnest::deadline(members_.next(), " had not taken all chunks when the time was over");
    }
    // Whoever has done its part may leave now: that ends the next call, if there is one.
    if (!received.ok() && received.code() != Code::kUnavailable) return received;
  }
  return outbox_.dropped() > 0 ? members_.next_is_gone() : Status();
}

Status Group::receive(TimePoint deadline) {
  auto event = endpoint_.receive(deadline, Channel::kAveraging);
  // Interrupted: there may be room again, or someone has aborted.
  if (event.status().code() == Code::kUnavailable) return {};
  if (!event.ok()) return event.status();
  if (const auto* change = std::get_if<PeerChange>(&event->what)) return members_.note(event->peer, *change);
  sort(event->peer, std::get<wire::Message>(event->what));
  return {};
}

// A chunk from anyone but the member before, or of something else that this endpoint takes part in, would be added to
// the wrong sum.
void Group::sort(const std::string& from, wire::Message& message) {
  auto* chunk = std::get_if<wire::RingChunk>(&message);
  const bool ours = chunk != nullptr && from == members_.previous() && chunk->vector == options_.vector;
  if (ours && chunk->round == round_) {
    at_hand_.push_back(std::move(*chunk));
  } else if (ours && chunk->round > round_) {
    early_[chunk->round].push_back(std::move(*chunk));
  } else {
    ++ignored_;
  }
}

void Group::catch_up() {
  for (;;) {
    auto event = endpoint_.receive(TimePoint(), Channel::kAveraging);
    if (event.status().code() == Code::kUnavailable) continue;  // an interruption, meant for someone earlier
    if (!event.ok()) return;
    if (const auto* change = std::get_if<PeerChange>(&event->what)) {
      members_.catch_up(event->peer, *change);
    } else {
      sort(event->peer, std::get<wire::Message>(event->what));
      if (!at_hand_.empty()) return;  // the first call has begun elsewhere
    }
  }
}

}  // namespace ravnest::collective
