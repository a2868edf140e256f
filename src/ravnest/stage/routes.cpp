#include "ravnest/stage/routes.h"

#include <set>

namespace ravnest::stage {
namespace {

ir::Routing alone(const ir::Graph& graph) {
  ir::Routing routing;
  for (const ir::Input& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser && input.kind != ir::InputKind::kFixed) continue;
    routing.inputs.push_back({-1, static_cast<std::int32_t>(routing.inputs.size())});
  }
  routing.consumers.resize(graph.outputs.size());
  routing.model_inputs.resize(routing.inputs.size());
  return routing;
}

std::vector<int> as_list(const std::set<int>& stages) { return {stages.begin(), stages.end()}; }

}  // namespace

ir::StageInfo stage_of(const ir::Model& model) {
  if (model.stage) return *model.stage;
  ir::StageInfo stage{.train = alone(model.train), .eval = alone(model.eval), .tied = {}};
  stage.train_call = {model.train.in_spec, model.train.out_spec, model.train.argument_names};
  stage.eval_call = {model.eval.in_spec, model.eval.out_spec, model.eval.argument_names};
  for (const auto& [name, payload] : model.weights) stage.state_dict.push_back(name);
  return stage;
}

Neighbours neighbours(const ir::StageInfo& stage, const ir::Routing& routing) {
  std::set<int> producers;
  for (const ir::Source& source : routing.inputs) producers.insert(std::max(source.stage, 0));
  if (producers.empty()) producers.insert(0);  // as one of the root's `without_inputs`
  if (stage.index == 0) producers.clear();
  std::set<int> consumers;
  for (const auto& readers : routing.consumers) consumers.insert(readers.begin(), readers.end());
  for (const auto& readers : routing.model_inputs) consumers.insert(readers.begin(), readers.end());
  consumers.insert(routing.without_inputs.begin(), routing.without_inputs.end());
  return {as_list(producers), as_list(consumers)};
}

StageOptions stage_options(const ir::StageInfo& stage) {
  std::set<int> users;
  std::set<int> keepers;
  for (const auto& [weight, stages] : stage.tied) {
    const int keeper = keeper_of(stages);
    if (keeper == stage.index) {
      users.insert(stages.begin() + 1, stages.end());
    } else {
      keepers.insert(keeper);
    }
  }
  StageOptions options;
  options.index = stage.index;
  options.count = stage.count;
  options.train = neighbours(stage, stage.train);
  options.evaluate = neighbours(stage, stage.eval);
  options.tied_users = as_list(users);
  options.tied_keepers = as_list(keepers);
  return options;
}

}  // namespace ravnest::stage
