#include "ravnest/graph/cut/units.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>

#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/ir/uses.h"

namespace ravnest::graph {
namespace {

// Per operator position p from 0 to operators.size(): the bytes of the parameters that are first used before it. Tied
// names count once.
std::vector<std::int64_t> parameter_bytes_before(const ir::Model& model) {
  std::vector<std::int64_t> before(model.train.operators.size() + 1);
  std::vector<const archive::Payload*> counted;
  const auto first = ir::first_uses(model);
  for (const auto& [name, payload] : model.weights) {
    const auto use = std::ranges::find(first, name, &std::pair<std::string, int>::first);
    const bool is_known = std::ranges::any_of(counted, [&](const auto* other) { return same_tensor(*other, payload); });
    if (!payload.is_parameter || is_known || use == first.end() || use->second == ir::kReturned) continue;
    counted.push_back(&payload);
    before[static_cast<std::size_t>(use->second) + 1] +=
        archive::element_count(payload) * static_cast<std::int64_t>(item_size(payload.dtype));
  }
  for (std::size_t p = 1; p < before.size(); ++p) before[p] += before[p - 1];
  return before;
}

int unit_count(std::int64_t bytes, const UnitOptions& options) {
  const std::int64_t at_least_full = bytes / std::max<std::int64_t>(options.least_bytes, 1);
  const std::int64_t not_too_large = (bytes + options.most_bytes - 1) / std::max<std::int64_t>(options.most_bytes, 1);
  return static_cast<int>(
      std::max<std::int64_t>({1, not_too_large, std::min<std::int64_t>(at_least_full, options.most_units)}));
}

// For each boundary between two units of like size: the cheapest place that is closer to it than to the next boundary.
std::vector<int> cuts_by_size(const std::vector<Cut>& possible, const std::vector<std::int64_t>& before,
                              const UnitOptions& options) {
  const std::int64_t total = before.back();
  const int count = unit_count(total, options);
  std::vector<int> cuts;
  for (int boundary = 1; boundary < count; ++boundary) {
    const std::int64_t wanted = total / count * boundary;
    const auto cost = [&](const Cut& cut) {
      return std::tuple(cut.bytes, std::abs(before[static_cast<std::size_t>(cut.position)] - wanted), -cut.position);
    };
    const Cut* best = nullptr;
    for (const Cut& cut : possible) {
      const std::int64_t off = std::abs(before[static_cast<std::size_t>(cut.position)] - wanted);
      const bool follows = cuts.empty() || cut.position > cuts.back();
      if (!cut.refusal.empty() || !follows || off > total / count / 2) continue;
      if (best == nullptr || cost(cut) < cost(*best)) best = &cut;
    }
    if (best != nullptr) cuts.push_back(best->position);
  }
  return cuts;
}

// "encoder.layers.3" of "encoder.layers.3.mlp.fc1": the path up to its first number; empty where it has none.
std::string block_of(const ir::Operator& op) {
  const std::string path = ir::module_path(op);
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const bool is_number = path.find_first_not_of("0123456789", begin) >= end && end > begin;
    if (is_number) return path.substr(0, end);
    begin = end + 1;
  }
  return {};
}

// Where a block begins and where it ends, or as soon after that as a cut is allowed.
std::vector<int> cuts_by_block(const std::vector<Cut>& possible, const ir::Graph& graph) {
  std::vector<int> cuts;
  bool due = false;
  for (const Cut& cut : possible) {
    const auto position = static_cast<std::size_t>(cut.position);
    due = due || block_of(graph.operators[position]) != block_of(graph.operators[position - 1]);
    if (!due || !cut.refusal.empty()) continue;
    cuts.push_back(cut.position);
    due = false;
  }
  return cuts;
}

}  // namespace

Result<std::vector<int>> unit_cuts(const ir::Model& model, const UnitOptions& options) {
  const auto possible = possible_cuts(model);
  if (!possible.ok()) return possible.status();
  const std::vector<int> wanted = options.rule == UnitRule::kBlocks
                                      ? cuts_by_block(*possible, model.train)
                                      : cuts_by_size(*possible, parameter_bytes_before(model), options);
  return allowed_together(model, wanted);
}

}  // namespace ravnest::graph
