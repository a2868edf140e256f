#include "ravnest/plan/search/weakest.h"

#include <algorithm>
#include <map>

namespace ravnest::plan {
namespace {

// The next node is that many times as strong, and the weak ones are below that share of the median.
constexpr double kMuchStronger = 1.3;
constexpr double kWeak = 0.75;
constexpr std::size_t kMostPlaces = 4;
// Latencies below this are as good as none.
constexpr double kShortLatencyS = 1e-3;

template <class Figure>
double median(const std::vector<Machine>& machines, const std::vector<int>& nodes, Figure figure) {
  std::vector<double> all;
  for (const int node : nodes) all.push_back(figure(machines[node]));
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

}  // namespace

std::vector<std::vector<int>> without_the_weakest(const std::vector<Machine>& machines, const std::vector<int>& nodes) {
  if (nodes.empty()) return {};
  const auto compute = [](const Machine& machine) { return machine.flops_per_s; };
  const auto link = [](const Machine& machine) { return machine.link_bytes_per_s; };
  const auto quickness = [](const Machine& machine) { return 1 / (machine.latency_s + kShortLatencyS); };
  const double usual_compute = median(machines, nodes, compute);
  const double usual_link = median(machines, nodes, link);
  const double usual_quickness = median(machines, nodes, quickness);
  std::vector<std::pair<double, int>> by_strength;
  for (const int node : nodes) {
    const Machine& own = machines[node];
    by_strength.emplace_back(
        std::min({compute(own) / usual_compute, link(own) / usual_link, quickness(own) / usual_quickness}), node);
  }
  std::sort(by_strength.begin(), by_strength.end());
  std::multimap<double, std::size_t, std::greater<>> steps;  // how much stronger the next one is -> how many are weaker
  for (std::size_t k = 1; 2 * k <= by_strength.size(); ++k) {
    const double step = by_strength[k].first / by_strength[k - 1].first;
    if (by_strength[k - 1].first < kWeak && step >= kMuchStronger) steps.emplace(step, k);
  }
  std::vector<std::vector<int>> result;
  for (const auto& [step, weaker] : steps) {
    if (result.size() == kMostPlaces) break;
    std::vector<int>& left = result.emplace_back();
    for (std::size_t i = weaker; i < by_strength.size(); ++i) left.push_back(by_strength[i].second);
    std::sort(left.begin(), left.end());
  }
  return result;
}

}  // namespace ravnest::plan
