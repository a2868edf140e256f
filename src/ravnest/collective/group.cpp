#include "ravnest/collective/group.h"

#include <algorithm>
#include <utility>

namespace ravnest::collective {
namespace {

// Of unused memory: about what a network holds before it is acknowledged.
constexpr std::uint64_t kPoolBytes = 64 << 20;
constexpr double kCacheBytes = 1 << 20;
constexpr double kNetworkBytesPerSecond = 1.25e9;

}  // namespace

Group::Group(transport::Endpoint& endpoint, std::vector<std::string> members, std::size_t self, GroupOptions options)
    : members_(static_cast<std::uint32_t>(members.size())),
      self_(static_cast<std::uint32_t>(self)),
      options_(options),
      neighbours_(endpoint, members, self),
      pool_(kPoolBytes) {
  if (self >= members.size() || members[self] != endpoint.name()) {
    broken_ = invalid(endpoint.name(), " is not member ", self, " of ", join(members));
  }
}

Status Group::all_reduce(std::span<float> values, TimePoint deadline, double scale) {
  return run(Operation::kAllReduce, values, deadline, scale);
}
Status Group::all_reduce(std::span<double> values, TimePoint deadline, double scale) {
  return run(Operation::kAllReduce, values, deadline, scale);
}
Status Group::reduce_scatter(std::span<float> values, TimePoint deadline, double scale) {
  return run(Operation::kReduceScatter, values, deadline, scale);
}
Status Group::reduce_scatter(std::span<double> values, TimePoint deadline, double scale) {
  return run(Operation::kReduceScatter, values, deadline, scale);
}
Status Group::all_gather(std::span<float> values, TimePoint deadline) {
  return run(Operation::kAllGather, values, deadline, 1);
}
Status Group::all_gather(std::span<double> values, TimePoint deadline) {
  return run(Operation::kAllGather, values, deadline, 1);
}
Status Group::broadcast(std::span<float> values, std::size_t root, TimePoint deadline) {
  return run(Operation::kBroadcast, values, deadline, 1, root);
}
Status Group::broadcast(std::span<double> values, std::size_t root, TimePoint deadline) {
  return run(Operation::kBroadcast, values, deadline, 1, root);
}

Range Group::own_segment(std::size_t elements) const { return segment_range(elements, members_, self_); }

template <class T>
Status Group::run(Operation operation, std::span<T> values, TimePoint deadline, double scale, std::size_t root) {
  if (!broken_.ok()) return broken_;
  if (root >= members_) return invalid("there is no member ", root, " to broadcast from");
  ExchangeOptions options;
  options.ring = {.operation = operation,
                  .members = members_,
                  .self = self_,
                  .root = static_cast<std::uint32_t>(root),
                  .chunk_elements = std::max<std::size_t>(options_.chunk_bytes / sizeof(T), 1)};
  options.round = round_;
  options.strand = options_.strand;
  options.scale = scale;
  Exchange<T> exchange(options, values, pool_, values);
  at_hand_ = std::exchange(early_, {});
  Status status = neighbours_.ready();
  if (status.ok()) status = drive(exchange, deadline);
  ignored_ += exchange.ignored();
  broken_ = status.with_context(text(operation, " ", round_));
  ++round_;
  return broken_;
}

// Of the member's own chunks, at a time: what a processor's cache holds, and what a fast network has on its way.
std::size_t Group::most_under_way() const {
  const double bytes = kCacheBytes + kNetworkBytesPerSecond * neighbours_.round_trip_s();
  return std::max<std::size_t>(static_cast<std::size_t>(bytes) / std::max<std::size_t>(options_.chunk_bytes, 1), 2);
}

template <class T>
Status Group::drive(Exchange<T>& exchange, TimePoint deadline) {
  const std::size_t most = most_under_way();
  bool begins = true;  // there may be chunks of its own to send
  while (!exchange.complete()) {
    // What others wait for goes first; and what has no room yet need not be made yet.
    const bool may_begin = begins && neighbours_.has_room() && exchange.under_way() < most;
    auto chunk = next_chunk(may_begin ? TimePoint() : deadline);
    if (chunk.status().code() == Code::kDeadline && may_begin) {
      auto own = exchange.start(1);
      if (!own.ok()) return own.status();
      begins = !own->empty();
      for (wire::RingChunk& message : *own) {
        if (Status sent = neighbours_.send(std::move(message)); !sent.ok()) return sent;
      }
      continue;
    }
    if (chunk.status().code() == Code::kDeadline) {
      return ravnest::deadline("only ", exchange.ring().received(), " of ", exchange.ring().expected(),
                               " chunks had come when the time was over; ", neighbours_.outlook());
    }
    if (!chunk.ok()) return chunk.status();
    if (!*chunk) continue;
    auto message = exchange.on_chunk(std::move(**chunk));
    if (!message.ok()) return message.status().with_context(neighbours_.previous());
    if (!*message) continue;
    if (Status sent = neighbours_.send(std::move(**message)); !sent.ok()) return sent;
  }
  return neighbours_.finish(deadline);
}

Result<std::optional<wire::RingChunk>> Group::next_chunk(TimePoint deadline) {
  if (!at_hand_.empty()) {
    std::optional<wire::RingChunk> chunk = std::move(at_hand_.front());
    at_hand_.pop_front();
    return chunk;
  }
  for (;;) {
    auto chunk = neighbours_.receive(deadline);
    if (!chunk.ok() || !*chunk) return chunk;
    const bool ours = (*chunk)->strand == options_.strand;
    if (ours && (*chunk)->round == round_) return chunk;
    if (ours && (*chunk)->round == round_ + 1) {
      early_.push_back(std::move(**chunk));
    } else {
      ++ignored_;
    }
  }
}

}  // namespace ravnest::collective
