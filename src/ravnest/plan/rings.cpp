#include "ravnest/plan/rings.h"

#include <algorithm>

namespace ravnest::plan {
namespace {

Run common(const Run& a, const Run& b) { return {std::max(a.first, b.first), std::min(a.end, b.end)}; }

std::vector<Run> owned_runs(const ModelCosts& costs, const std::vector<int>& trainable, const std::vector<int>& cuts) {
  const auto before = [&](int position) {
    const auto end = std::partition_point(trainable.begin(), trainable.end(), [&](int parameter) {
      return costs.stored[parameter].used_at.front() < position;
    });
    return static_cast<int>(end - trainable.begin());
  };
  std::vector<Run> runs;
  int first = 0;
  for (const int cut : cuts) {
    runs.push_back({first, before(cut)});
    first = runs.back().end;
  }
  runs.push_back({first, static_cast<int>(trainable.size())});
  return runs;
}

}  // namespace

std::vector<int> trainable_parameters(const ModelCosts& costs) {
  std::vector<int> trainable;
  for (std::size_t i = 0; i < costs.stored.size(); ++i) {
    if (costs.stored[i].trainable) trainable.push_back(static_cast<int>(i));
  }
  return trainable;
}

std::vector<std::vector<StageRings>> form_rings(const ModelCosts& costs, const std::vector<std::vector<int>>& cuts) {
  const std::vector<int> trainable = trainable_parameters(costs);
  std::vector<std::vector<Run>> owned;
  std::size_t longest = 0;
  for (const std::vector<int>& each : cuts) {
    owned.push_back(owned_runs(costs, trainable, each));
    if (owned.back().size() > owned[longest].size()) longest = owned.size() - 1;
  }
  std::vector<std::vector<StageRings>> clusters(owned.size());
  for (std::size_t c = 0; c < owned.size(); ++c) {
    const std::vector<Run>& next = owned[(c + 1) % owned.size()];
    for (const Run& own : owned[c]) {
      StageRings& stage = clusters[c].emplace_back();
      stage.owned = own;
      for (std::size_t ring = 0; ring < owned[longest].size(); ++ring) {
        const Run run = common(own, owned[longest][ring]);
        if (!run.empty()) stage.shares.push_back({static_cast<int>(ring), run});
      }
      for (std::size_t s = 0; s < next.size(); ++s) {
        const Run run = common(own, next[s]);
        if (!run.empty()) stage.neighbours.push_back({static_cast<int>(s), run});
      }
    }
  }
  return clusters;
}

}  // namespace ravnest::plan
