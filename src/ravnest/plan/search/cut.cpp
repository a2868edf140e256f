#include "ravnest/plan/search/cut.h"

#include <algorithm>
#include <cmath>

#include "ravnest/plan/predict/stage_cost.h"

namespace ravnest::plan {
namespace {

// Indices into the segments' positions, from 0 to count(), one more than stages.
using Bounds = std::vector<int>;

Cutting finished(const Segments& segments, const Bounds& bounds, std::span<const Machine> machines,
                 const TrainingAssumptions& options) {
  Cutting cutting;
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
    if (s > 0) cutting.cuts.push_back(segments.positions()[bounds[s]]);
    cutting.loads.push_back(segments.load(bounds[s], bounds[s + 1]));
  }
  cutting.fullest = fullest(cutting.loads, machines, options);
  return cutting;
}

// For each position the most stages that [position, end) can be cut into.
std::vector<int> stages_behind(const Segments& segments) {
  std::vector<int> most(segments.count() + 1, 0);
  int end = segments.count();
  for (int begin = segments.count() - 1; begin >= 0; --begin) {
    const bool one_more = segments.owns_parameters(begin, end);
    most[begin] = most[end] + (one_more ? 1 : 0);
    if (one_more) end = begin;
  }
  return most;
}

// Each stage takes operators for as long as that brings it nearer to its share of what is left. Cuts fall only before
// operators with parameters; those without stay with the ones before them.
std::optional<Bounds> greedy_shares(const Segments& segments, std::span<const Machine> machines) {
  const std::vector<int> behind = stages_behind(segments);
  double ram_left = 0;
  for (const Machine& machine : machines) ram_left += machine.ram_bytes;
  auto left = static_cast<double>(segments.load(0, segments.count()).owned_parameters);
  const int stages = static_cast<int>(machines.size());
  Bounds bounds{0};
  for (int s = 0; s + 1 < stages; ++s) {
    const double share = left * machines[s].ram_bytes / ram_left;
    int best = -1;
    double best_parameters = 0;
    double best_distance = kImpossible;
    for (int end = bounds.back() + 1; end < segments.count(); ++end) {
      if (behind[end] < stages - 1 - s) break;
      if (!segments.owns_parameters(bounds.back(), end) || !segments.owns_parameters(end, end + 1)) continue;
      const auto parameters = static_cast<double>(segments.load(bounds.back(), end).owned_parameters);
      const double distance = std::abs(parameters - share);
      if (distance >= best_distance) break;
      best = end;
      best_parameters = parameters;
      best_distance = distance;
    }
    if (best < 0) return std::nullopt;
    bounds.push_back(best);
    left -= best_parameters;
    ram_left -= machines[s].ram_bytes;
  }
  bounds.push_back(segments.count());
  return bounds;
}

// The bounds with the least cost. After round s, best[end] is the best that the first s + 1 stages can do up to `end`.
// `cost(stage, begin, end, so_far, enough)` is the cost up to and with that stage, given the cost before it, which it
// is never less than; it may stop at any figure that is not below `enough`, and is kImpossible where the stage may not
// be.
template <class Cost>
std::optional<Bounds> least(const Segments& segments, int stages, const Cost& cost) {
  const int places = segments.count() + 1;
  std::vector<double> best(places, kImpossible);
  best[0] = 0;
  std::vector<std::vector<int>> from(stages, std::vector<int>(places, -1));
  for (int s = 0; s < stages; ++s) {
    std::vector<double> next(places, kImpossible);
    const int first_end = s + 1 == stages ? segments.count() : 1;
    for (int begin = 0; begin < segments.count(); ++begin) {
      if (best[begin] == kImpossible) continue;
      for (int end = std::max(begin + 1, first_end); end <= segments.count(); ++end) {
        if (best[begin] >= next[end] || !segments.owns_parameters(begin, end)) continue;
        const double made = cost(s, begin, end, best[begin], next[end]);
        if (made < next[end]) {
          next[end] = made;
          from[s][end] = begin;
        }
      }
    }
    best = std::move(next);
  }
  if (best[segments.count()] == kImpossible) return std::nullopt;
  Bounds bounds{segments.count()};
  for (int s = stages - 1; s >= 0; --s) bounds.push_back(from[s][bounds.back()]);
  std::reverse(bounds.begin(), bounds.end());
  return bounds;
}

std::optional<Bounds> by_memory(const Segments& segments, std::span<const Machine> machines,
                                const TrainingAssumptions& options) {
  const int stages = static_cast<int>(machines.size());
  return least(segments, stages, [&](int stage, int begin, int end, double so_far, double) {
    return std::max(so_far, used_share(segments.load(begin, end), machines[stage], stage, stages, options));
  });
}

class ByTime {
 public:
  ByTime(const Segments& segments, std::span<const Machine> machines, const TrainingAssumptions& options, bool quick)
      : segments_(segments),
        machines_(machines),
        options_(options),
        stages_(static_cast<int>(machines.size())),
        steps_(quick ? 4 : 12) {}

  // First for the fastest slowest stage. Where the way of a batch through all stages and back takes longer than the
  // passes in flight can hide, slower stages are allowed, up to where they become the limit, if that way gets shorter.
  std::optional<Bounds> run() const {
    std::optional<Bounds> best = fastest_slowest();
    if (!best) return std::nullopt;
    double period = period_of(*best);
    double slowest = slowest_of(*best);
    if (period <= slowest) return best;
    double allowed = slowest;
    for (int step = 0; step < steps_ && allowed < period * 0.999; ++step) {
      std::optional<Bounds> made = shortest_way(allowed);
      if (!made) break;
      const bool still_too_long = period_of(*made) > allowed;
      if (period_of(*made) < period) {
        period = period_of(*made);
        best = std::move(made);
      }
      if (!still_too_long) break;
      allowed = (allowed + period) / 2;
    }
    return best;
  }

 private:
  std::optional<Bounds> fastest_slowest() const {
    return least(segments_, stages_, [&](int stage, int begin, int end, double so_far, double enough) {
      return std::max(so_far, busy_s(segments_, begin, end, machines_[stage], stage, stages_, options_, enough));
    });
  }

  std::optional<Bounds> shortest_way(double allowed) const {
    return least(segments_, stages_, [&](int stage, int begin, int end, double so_far, double enough) {
      const double compute_s = segments_.work(begin, end) / machines_[stage].flops_per_s;
      if (so_far + compute_s >= enough) return so_far + compute_s;
      const double busy = busy_s(segments_, begin, end, machines_[stage], stage, stages_, options_, kImpossible);
      if (busy > allowed) return kImpossible;
      const double hop =
          stage == 0 ? 0 : hop_s(segments_.load(begin, end), machines_[stage - 1], machines_[stage], options_);
      return so_far + compute_s + hop;
    });
  }

  std::vector<StageLoad> loads(const Bounds& bounds) const {
    std::vector<StageLoad> made;
    for (int s = 0; s < stages_; ++s) made.push_back(segments_.load(bounds[s], bounds[s + 1]));
    return made;
  }

  double period_of(const Bounds& bounds) const { return period_s(loads(bounds), machines_, options_); }

  double slowest_of(const Bounds& bounds) const {
    double slowest = 0;
    for (int s = 0; s < stages_; ++s) {
      slowest = std::max(slowest,
                         busy_s(segments_, bounds[s], bounds[s + 1], machines_[s], s, stages_, options_, kImpossible));
    }
    return slowest;
  }

  const Segments& segments_;
  std::span<const Machine> machines_;
  const TrainingAssumptions& options_;
  int stages_;
  int steps_;
};

}  // namespace

std::string_view name(Balance balance) {
  switch (balance) {
    case Balance::kParams: return "params";
    case Balance::kTime: return "time";
    case Balance::kMemory: return "memory";
  }
  return "unknown";
}

Result<Balance> parse_balance(std::string_view word) {
  for (const Balance balance : {Balance::kParams, Balance::kTime, Balance::kMemory}) {
    if (word == name(balance)) return balance;
  }
  return invalid("balance must be \"params\", \"time\" or \"memory\", not \"", word, "\"");
}

double fullest(std::span<const StageLoad> loads, std::span<const Machine> machines,
               const TrainingAssumptions& options) {
  double most = 0;
  for (std::size_t s = 0; s < loads.size(); ++s)
    most =
        std::max(most, used_share(loads[s], machines[s], static_cast<int>(s), static_cast<int>(loads.size()), options));
  return most;
}

std::optional<Cutting> cut(const Segments& segments, std::span<const Machine> machines, Balance balance,
                           const TrainingAssumptions& options, bool quick) {
  if (machines.empty() || static_cast<int>(machines.size()) > segments.most_stages()) return std::nullopt;
  std::optional<Bounds> bounds;
  if (balance == Balance::kParams) bounds = greedy_shares(segments, machines);
  if (balance == Balance::kTime) bounds = ByTime(segments, machines, options, quick).run();
  if (!bounds) bounds = by_memory(segments, machines, options);
  if (!bounds) return std::nullopt;
  return finished(segments, *bounds, machines, options);
}

}  // namespace ravnest::plan
