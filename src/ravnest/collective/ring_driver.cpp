#include "ravnest/collective/ring_driver.h"

#include <algorithm>
#include <utility>

namespace ravnest::collective {
namespace {

constexpr double kCacheBytes = 1 << 20;
constexpr double kNetworkBytesPerSecond = 1.25e9;
// An operation may have so many chunks under way even where others use up what all share.
constexpr std::size_t kLeastUnderWay = 2;

std::size_t chunks_to_fill(double round_trip_s, std::size_t chunk_bytes) {
  // What is on its way over a long path must not empty the ring: the bytes that a fast network carries in one round
  // trip come on top of what a cache holds.
  const double bytes = kCacheBytes + kNetworkBytesPerSecond * round_trip_s;
  return std::max(static_cast<std::size_t>(bytes) / std::max<std::size_t>(chunk_bytes, 1), kLeastUnderWay);
}

}  // namespace

template <class T>
void RingDriver<T>::add(const ExchangeOptions& options, std::span<T> values, std::string previous, std::string next) {
  const auto peer = endpoint_.statistics(next);  // none of a member that is alone
  const std::size_t most = chunks_to_fill(peer.ok() ? peer->round_trip_s : 0, options.ring.chunk_elements * sizeof(T));
  running_.push_back(std::make_unique<Running>(Running{options.vector, Exchange<T>(options, values, pool_, values),
                                                       std::move(previous), std::move(next), most}));
}

template <class T>
const typename RingDriver<T>::Running* RingDriver<T>::first_to_begin() const {
  // The count is of all operations, since they share the cache and the path; the bound is of one, since paths differ.
  std::size_t under_way = 0;
  for (const auto& each : running_) under_way += each->exchange.under_way();
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const Running& each = *running_[(turn_ + i) % running_.size()];
    // What has no room yet need not be made yet.
    if (each.exchange.all_begun() || !outbox_.has_room(each.next, transport::Priority::kBulk)) continue;
    // The second keeps members that are busy with different operations from waiting for each other (ring_driver.h).
    if (under_way < each.most_under_way || each.exchange.under_way() < kLeastUnderWay) return &each;
  }
  return nullptr;
}

template <class T>
bool RingDriver<T>::may_begin() const {
  return first_to_begin() != nullptr;
}

template <class T>
Status RingDriver<T>::begin() {
  const Running* first = first_to_begin();
  if (first == nullptr) return {};
  const auto found = std::ranges::find(running_, first, &std::unique_ptr<Running>::get);
  // Each in turn, one chunk at a time: a long vector must not keep short ones from going along with it.
  turn_ = static_cast<std::size_t>(found - running_.begin()) + 1;
  auto chunks = (*found)->exchange.start(1);
  if (!chunks.ok()) return chunks.status();
  for (wire::RingChunk& chunk : *chunks) {
    if (Status sent = send(**found, std::move(chunk)); !sent.ok()) return sent;
  }
  return {};
}

template <class T>
Status RingDriver<T>::on_chunk(const std::string& from, wire::RingChunk chunk) {
  // A chunk from anyone else than the member before would be added to the wrong sum.
  const auto found = std::ranges::find_if(
      running_, [&](const auto& each) { return each->vector == chunk.vector && each->previous == from; });
  if (found == running_.end()) {
    ++ignored_;
    return {};
  }
  auto passed_on = (*found)->exchange.on_chunk(std::move(chunk));
  if (!passed_on.ok()) return passed_on.status();
  return *passed_on ? send(**found, std::move(**passed_on)) : Status();
}

template <class T>
Status RingDriver<T>::send(const Running& from, wire::RingChunk&& chunk) {
  bytes_sent_ += chunk.tensor.data.size();
  return outbox_.send(from.next, std::move(chunk));
}

template <class T>
bool RingDriver<T>::complete() const {
  return std::ranges::all_of(running_, [](const auto& each) { return each->exchange.complete(); });
}

template <class T>
std::uint64_t RingDriver<T>::received() const {
  std::uint64_t chunks = 0;
  for (const auto& each : running_) chunks += each->exchange.ring().received();
  return chunks;
}

template <class T>
std::uint64_t RingDriver<T>::expected() const {
  std::uint64_t chunks = 0;
  for (const auto& each : running_) chunks += each->exchange.ring().expected();
  return chunks;
}

template <class T>
std::uint64_t RingDriver<T>::ignored() const {
  std::uint64_t chunks = ignored_;
  for (const auto& each : running_) chunks += each->exchange.ignored();
  return chunks;
}

template class RingDriver<float>;
template class RingDriver<double>;
template class RingDriver<std::int64_t>;
template class RingDriver<std::byte>;

}  // namespace ravnest::collective
