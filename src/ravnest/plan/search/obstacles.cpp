#include "ravnest/plan/search/obstacles.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ravnest/base/text.h"
#include "ravnest/base/words/units.h"

namespace ravnest::plan {
namespace {

constexpr double kWorthNaming = 0.1;  // of the model's parameters
constexpr std::size_t kMostNamed = 3;

// Operators [begin, end) that fall into one stage whatever the cuts.
struct Stretch {
  int begin = 0;
  int end = 0;
  std::int64_t elements = 0;  // of the parameters that they are the first to use
  int tensors = 0;
  std::set<int> owners;  // the operators that bring them in
};

std::vector<Stretch> stretches_of(const ModelCosts& costs) {
  std::vector<Stretch> found;
  const int operators = static_cast<int>(costs.operators.size());
  for (int p = 0; p < operators; ++p) {
    if (p == 0 || costs.operators[p].cut_allowed) found.push_back({p, p, 0, 0, {}});
    found.back().end = p + 1;
  }
  for (const StoredCost& each : costs.stored) {
    if (!each.parameter) continue;
    const int first = each.used_at.front();
    const auto after = std::upper_bound(found.begin(), found.end(), first,
                                        [](int position, const Stretch& stretch) { return position < stretch.begin; });
    Stretch& stretch = *std::prev(after);
    stretch.elements += each.elements;
    ++stretch.tensors;
    stretch.owners.insert(first);
  }
  return found;
}

std::string place(const OperatorCost& each) {
  return each.module.empty() ? text("\"", each.name, "\"") : text("\"", each.name, "\" (", each.module, ")");
}

// The reason that most places of the stretch were refused for.
std::string usual_refusal(const ModelCosts& costs, const Stretch& stretch) {
  std::map<std::string, int> reasons;
  for (int p = stretch.begin + 1; p < stretch.end; ++p) ++reasons[costs.operators[p].refusal];
  const auto usual = std::max_element(reasons.begin(), reasons.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  return usual == reasons.end() ? "" : usual->first;
}

std::string described(const ModelCosts& costs, const Stretch& stretch, std::int64_t all) {
  const std::string share = text(
      quantity(100.0 * static_cast<double>(stretch.elements) / static_cast<double>(all), "%"), " of the parameters");
  if (stretch.owners.size() == 1)
    return text("one operator, ", place(costs.operators[*stretch.owners.begin()]), ", holds ", share);
  const std::string first = costs.operators[*stretch.owners.begin()].module;
  const std::string last = costs.operators[*stretch.owners.rbegin()].module;
  const std::string modules = first == last ? "" : text(" (of ", first, " to ", last, ")");
  const std::string reason = usual_refusal(costs, stretch);
  return text("no cut is possible from ", place(costs.operators[stretch.begin]), " to ",
              place(costs.operators[stretch.end - 1]), ", which hold ", share, modules, reason.empty() ? "" : ": ",
              reason);
}

}  // namespace

std::string what_limits_cuts(const ModelCosts& costs) {
  std::vector<Stretch> found = stretches_of(costs);
  std::int64_t all = 0;
  for (const Stretch& each : found) all += each.elements;
  std::erase_if(found, [&](const Stretch& each) {
    // A layer of a weight and a bias is no obstacle: nobody would divide it.
    const bool divisible = each.owners.size() > 1 || each.tensors > 2;
    return !divisible || static_cast<double>(each.elements) < kWorthNaming * static_cast<double>(all);
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const Stretch& a, const Stretch& b) { return a.elements > b.elements; });
  if (found.size() > kMostNamed) found.resize(kMostNamed);
  if (found.empty()) return "every stage needs a parameter of its own, and no more operators bring one in";
  std::string result;
  for (const Stretch& each : found) result += (result.empty() ? "" : "; ") + described(costs, each, all);
  return result;
}

}  // namespace ravnest::plan
