#include "ravnest/average/simulation/network.h"

#include <algorithm>
#include <utility>

namespace ravnest::average::simulation {

Network::Network(int clusters, Chance& chance)
    : chance_(chance),
      count_(static_cast<std::size_t>(clusters)),
      quick_(chance.pick(1, 30)),
      notices_(chance.pick(2, 400)),
      connections_(1),
      current_(count_ * count_),
      open_(count_ * count_),
      free_at_(count_ * count_) {}

void Network::after(Time delay, const Event& event) { timeline_.put(now_ + delay, event); }

std::optional<Event> Network::next() {
  auto due = timeline_.next();
  if (!due) return std::nullopt;
  now_ = due->first;
  return std::move(due->second);
}

void Network::connect(int one, int other, int incarnation_of_one, int incarnation_of_other) {
  const std::uint64_t number = connections_.size();
  current_[pair(one, other)] = current_[pair(other, one)] = number;
  Connection connection;
  connection.ends[0] = {one, incarnation_of_one};
  connection.ends[1] = {other, incarnation_of_other};
  for (End& end : connection.ends) {
    const int from = end.cluster == one ? other : one;
    end.last = std::max(now_, free_at_[pair(end.cluster, from)]) + draw_delay();
    timeline_.put(end.last, {EventKind::kUp, end.cluster, from, number, end.incarnation});
  }
  connections_.push_back(connection);
}

void Network::cut(int one, int other) { part(one, other, false); }
void Network::close(int one, int other) { part(one, other, true); }

void Network::part(int one, int other, bool in_order) {
  const std::uint64_t number = std::exchange(current_[pair(one, other)], 0);
  current_[pair(other, one)] = 0;
  for (End& end : connections_[number].ends) {
    const int from = end.cluster == one ? other : one;
    if (!in_order) end.until = now_ + chance_.pick(0, notices_ / 2);
    const Time heard = std::max(end.last, now_ + (in_order ? 1 : chance_.pick(1 + notices_ / 2, notices_))) + 1;
    free_at_[pair(end.cluster, from)] = heard;
    timeline_.put(heard, {EventKind::kDown, end.cluster, from, number, end.incarnation});
  }
}

void Network::send(int from, int to, const wire::Averaging& message) {
  const std::uint64_t number = open_[pair(from, to)];
  if (number == 0 || current_[pair(from, to)] != number) return;
  End& end = connections_[number].at(to);
  end.last = std::max(end.last, now_ + draw_delay());
  timeline_.put(end.last, {EventKind::kMessage, to, from, number, end.incarnation, message});
}

bool Network::arrives(const Event& event) {
  std::uint64_t& open = open_[pair(event.to, event.from)];
  switch (event.kind) {
    case EventKind::kUp: open = event.number; return true;
    case EventKind::kDown: return std::exchange(open, 0) == event.number;
    default: return open == event.number && connections_[event.number].at(event.to).until >= now_;
  }
}

void Network::forget(int cluster) {
  for (std::size_t other = 0; other < count_; ++other) open_[pair(cluster, static_cast<int>(other))] = 0;
}

}  // namespace ravnest::average::simulation
