#include "ravnest/stage/simulation/network.h"

#include <algorithm>

namespace ravnest::stage::simulation {

Network::Network(const Scenario& scenario, Choices& choices)
    : scenario_(scenario), choices_(choices), count_(scenario.stages.size()) {
  last_.resize(count_ * count_ * kLanes);
  parted_.resize(count_ * count_);
}

Time Network::draw_delay() {
  const Time delay = choices_.pick(scenario_.delay_most);
  return choices_.chance(scenario_.late_percent) ? delay * Scenario::kLateFactor : delay;
}

void Network::send(const Event& message, Lane lane) {
  const std::size_t way = pair(message.from, message.to);
  if (parted_[way]) return;
  Time& last = last_[way * kLanes + static_cast<std::size_t>(lane)];
  last = std::max(last, now_ + draw_delay());
  timeline_.put(last, message);
}

void Network::after(Time delay, const Event& event) { timeline_.put(now_ + delay, event); }

void Network::leave(int from, int to) {
  const std::size_t way = pair(from, to);
  if (parted_[way]) return;
  Time at = now_ + draw_delay();
  for (std::size_t lane = 0; lane < kLanes; ++lane) at = std::max(at, last_[way * kLanes + lane]);
  timeline_.put(at, {.kind = EventKind::kLeft, .to = to, .from = from, .number = 0, .head = {}});
}

void Network::part(int one, int other) { parted_[pair(one, other)] = parted_[pair(other, one)] = true; }

std::optional<Event> Network::next() {
  while (auto due = timeline_.next()) {
    const Event& event = due->second;
    const bool travels = is_message(event.kind) || event.kind == EventKind::kLeft;
    if (travels && parted_[pair(event.from, event.to)]) continue;
    now_ = due->first;
    return event;
  }
  return std::nullopt;
}

}  // namespace ravnest::stage::simulation
