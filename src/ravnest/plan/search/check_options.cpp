#include "ravnest/plan/search/check_options.h"

#include <algorithm>
#include <initializer_list>

#include "ravnest/base/words/units.h"
#include "ravnest/plan/pool/range.h"
#include "ravnest/plan/predict/predict.h"

namespace ravnest::plan {

Status check_options(const FormOptions& options, int nodes) {
  const auto first = [](std::initializer_list<Status> all) {
    const auto bad = std::find_if(all.begin(), all.end(), [](const Status& each) { return !each.ok(); });
    return bad == all.end() ? Status() : *bad;
  };
  const TrainingAssumptions& training = options.training;
  Status range = first({expect_within(kClusterSize, "min_cluster_size", options.min_cluster_size),
                        expect_within(kUpdatesPerRound, "the time between two averagings", training.updates_per_round),
                        expect_within(kOptimizerState, "the optimizer's state", training.optimizer_state)});
  if (!range.ok()) return range;
  if (!(training.sent_share > 0 && training.sent_share <= 2))
    return invalid("what stages send cannot take ", training.sent_share, " bytes per byte");
  // One machine alone trains alone: nobody has to ask for that.
  if (options.min_cluster_size > nodes && nodes > 1)
    return invalid("a cluster must have at least ", options.min_cluster_size,
                   " nodes (min_cluster_size), but the pool has ", nodes,
                   "; a smaller min_cluster_size, or more nodes, would help");
  return {};
}

Status check_sums(const ModelCosts& costs, int nodes, const TrainingAssumptions& training) {
  double bytes = static_cast<double>(costs.memory_bytes);
  bool negative = costs.memory_bytes < 0;
  const auto add = [&](std::int64_t part) {
    bytes += static_cast<double>(part);
    negative = negative || part < 0;
  };
  for (const OperatorCost& each : costs.operators) {
    add(each.saved_bytes);
    add(each.again_bytes);
    add(each.working_bytes);
    negative = negative || !kPlannedFigure.has(each.work);
  }
  for (const StoredCost& each : costs.stored) {
    add(each.bytes);
    add(each.elements);
  }
  for (const SentCost& each : costs.sent) {
    add(each.bytes);
    add(each.gradient_bytes);
  }
  const double most = bytes * (static_cast<double>(kMostPassesPerStage) * nodes + training.optimizer_state + 4);
  if (!negative && kPlannedFigure.has(most)) return {};
  return invalid("the sizes of the model's tensors make no sense (they add up to ", quantity(bytes, "B"),
                 "); does the example have the batch size that you will train with?");
}

}  // namespace ravnest::plan
