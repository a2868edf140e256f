// How a node averages with those of other clusters.
#include <algorithm>
#include <utility>

#include "ravnest/graph/ir/uses.h"
#include "ravnest/plan/strands.h"
#include "ravnest/train/node/node.h"

namespace ravnest::train {
namespace {

// For each strand the tensors that are first used in it. By place and name, so that the order is the same wherever a
// cluster is cut.
std::vector<std::vector<std::string>> names_by_strand(const ir::Model& stage,
                                                      const std::vector<plan::Strand>& strands) {
  auto uses = ir::first_uses(stage);
  std::ranges::sort(uses, {}, [](const auto& use) { return std::pair(use.second, use.first); });
  std::vector<std::vector<std::string>> names(strands.size());
  for (auto& [name, place] : uses) {
    const plan::Strand* strand = plan::strand_at(strands, place);
    if (strand != nullptr) names[static_cast<std::size_t>(strand - strands.data())].push_back(std::move(name));
  }
  return names;
}

}  // namespace

void Node::join_rounds(worker::ModelWorkerOptions& worker, cluster::DriverOptions& driver) {
  if (plan_.clusters.size() == 1) return;
  const auto& stages = plan_.clusters[static_cast<std::size_t>(cluster_)].stages;
  const std::vector<plan::Strand> strands = plan::strands_of(plan_, stages[static_cast<std::size_t>(stage_)].node);
  average::AveragerOptions options{.cluster = cluster_, .stage = stage_, .nodes = nodes_};
  for (const plan::PlannedCluster& cluster : plan_.clusters)
    options.roots.push_back(plan::node_name(cluster.stages.front().node));
  for (const plan::Strand& strand : strands) {
    average::StrandPlace& place = options.strands.emplace_back();
    place.number = static_cast<std::uint32_t>(strand.number);
    for (const int node : strand.nodes) place.nodes.push_back(plan::node_name(node));
  }
  if (const average::OuterOptions& outer = equipment_.outer; outer.nesterov)
    equipment_.settings["outer"] = text("nesterov with momentum ", outer.momentum, " and rate ", outer.rate);
  equipment_.settings["average_optim"] = equipment_.average_optimizer ? "true" : "false";
  options.codec = equipment_.codec;
  options.outer = equipment_.outer;
  options.log = options_.log;
  averager_ = std::make_unique<average::Averager>(std::move(options), *endpoint_);
  worker.averaging = averager_.get();
  worker.strands = names_by_strand(engine_.model(), strands);
  worker.average_optimizer = equipment_.average_optimizer;
  driver.averaging = averager_.get();
  driver.stage.rounds = {true, equipment_.reduce_factor, equipment_.average};
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
