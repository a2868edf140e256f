// How a node averages with those of other clusters.
#include <algorithm>
#include <utility>

#include "ravnest/graph/ir/uses.h"
#include "ravnest/plan/averaging_groups.h"
#include "ravnest/train/node/node.h"

namespace ravnest::train {
namespace {

// For each averaging group the tensors that are first used in it. By place and name, so that the order is the same
// wherever a cluster is cut.
std::vector<std::vector<std::string>> names_by_group(const ir::Model& stage,
                                                     const std::vector<plan::AveragingGroup>& averaging_groups) {
  auto uses = ir::first_uses(stage);
  std::ranges::sort(uses, {}, [](const auto& use) { return std::pair(use.second, use.first); });
  std::vector<std::vector<std::string>> names(averaging_groups.size());
  for (auto& [name, place] : uses) {
    const plan::AveragingGroup* averaging_group = plan::averaging_group_at(averaging_groups, place);
    if (averaging_group != nullptr)
      names[static_cast<std::size_t>(averaging_group - averaging_groups.data())].push_back(std::move(name));
  }
  return names;
}

}  // namespace

void Node::join_rounds(worker::ModelWorkerOptions& worker, cluster::DriverOptions& driver) {
  if (plan_.clusters.size() == 1) return;
  const auto& stages = plan_.clusters[static_cast<std::size_t>(cluster_)].stages;
  const std::vector<plan::AveragingGroup> averaging_groups =
      plan::averaging_groups_of(plan_, stages[static_cast<std::size_t>(stage_)].node);
  average::AveragerOptions options{.cluster = cluster_, .stage = stage_, .nodes = nodes_};
  for (const plan::PlannedCluster& cluster : plan_.clusters)
    options.roots.push_back(plan::node_name(cluster.stages.front().node));
  for (const plan::AveragingGroup& averaging_group : averaging_groups) {
    average::AveragingPlace& place = options.averaging_groups.emplace_back();
    place.number = static_cast<std::uint32_t>(averaging_group.number);
    for (const int node : averaging_group.nodes) place.nodes.push_back(plan::node_name(node));
  }
  if (const average::OuterOptimizerOptions& outer = training_options_.pipeline.outer; outer.nesterov)
    training_options_.settings["outer"] = text("nesterov with momentum ", outer.momentum, " and rate ", outer.rate);
  training_options_.settings["average_optim"] = training_options_.pipeline.average_optimizer ? "true" : "false";
  options.codec = training_options_.codec;
  options.outer = training_options_.pipeline.outer;
  options.log = options_.log;
  if (is_root() && training_options_.checkpoints.wanted()) {
    options.on_checkpoint = [this](const wire::Attempt& attempt, bool can) { on_round_checkpoint(attempt, can); };
  }
  averager_ = std::make_unique<average::Averager>(std::move(options), *endpoint_);
  worker.averaging = averager_.get();
  worker.averaging_groups = names_by_group(engine_.model(), averaging_groups);
  worker.average_optimizer = training_options_.pipeline.average_optimizer;
  driver.averaging = averager_.get();
  driver.stage.rounds = {true, training_options_.pipeline.reduce_factor, training_options_.pipeline.average};
}

std::optional<average::AveragerStatistics> Node::rounds() const {
  if (!averager_) return std::nullopt;
  return averager_->statistics();
}

Status Node::finish_rounds(const Poll& poll) {
  return until([&](TimePoint deadline) { return driver_->finish_rounds(deadline); }, poll);
}

Status Node::average(const Poll& poll) {
  if (!averager_) return {};
  driver_->average();
  return drain(poll);
}

}  // namespace ravnest::train
