// Models and pools made of numbers, for tests of the planner.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ravnest/plan/plan.h"
#include "ravnest/plan/pool/pool.h"
#include "ravnest/plan/predict/costs.h"

namespace ravnest::plan {

struct Layer {
  std::int64_t parameters = 0;  // elements, of four bytes
  double work = 0;
  std::int64_t output_bytes = 0;
};

// A chain: operator i reads what i - 1 made. Every operator may begin a stage.
inline ModelCosts chain(const std::vector<Layer>& layers, std::int64_t batch = 64) {
  ModelCosts costs;
  costs.batch = batch;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const int place = static_cast<int>(i);
    OperatorCost& made = costs.operators.emplace_back();
    made.name = "op_" + std::to_string(i);
    made.module = "layer_" + std::to_string(i);
    made.work = layer.work;
    made.saved_bytes = layer.output_bytes;
    made.working_bytes = layer.output_bytes;
    made.cut_allowed = i > 0;
    if (layer.parameters > 0)
      costs.stored.push_back({made.module + ".weight", 4 * layer.parameters, layer.parameters, true, true, {place}});
    costs.sent.push_back({place, {place + 1}, layer.output_bytes, layer.output_bytes});
    costs.memory_bytes += 16 * layer.parameters + 2 * layer.output_bytes;
  }
  return costs;
}

// As the digits CNN of the walk-through.
inline ModelCosts digits() {
  const std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::int64_t>>>> layers = {
      {"conv2d_1", {{"weight", 144}, {"bias", 16}}},
      {"act_1", {}},
      {"bn_1", {{"weight", 16}, {"bias", 16}}},
      {"maxpool2d_2", {}},
      {"conv2d_2", {{"weight", 4608}, {"bias", 32}}},
      {"act_2", {}},
      {"bn_2", {{"weight", 32}, {"bias", 32}}},
      {"flatten", {}},
      {"dense_1", {{"weight", 8192}, {"bias", 256}}},
      {"act_3", {}},
      {"drp_3", {}},
      {"bn_3", {{"weight", 256}, {"bias", 256}}},
      {"dense_2", {{"weight", 2560}, {"bias", 10}}},
      {"act_4", {}}};
  ModelCosts costs;
  costs.batch = 64;
  costs.memory_bytes = 4'200'000;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const int place = static_cast<int>(i);
    OperatorCost& made = costs.operators.emplace_back();
    made.name = layers[i].first;
    made.module = layers[i].first;
    made.work = 1e6;
    made.cut_allowed = i > 0;
    for (const auto& [name, elements] : layers[i].second)
      costs.stored.push_back({made.module + "." + name, 4 * elements, elements, true, true, {place}});
    costs.sent.push_back({place, {place + 1}, 8192, 8192});
  }
  return costs;
}

inline PoolNode machine(double ram_gb, double bandwidth_mbps, int port) {
  PoolNode node;
  node.address = {"0.0.0.0", static_cast<std::uint16_t>(port)};
  node.ram_gb = ram_gb;
  node.bandwidth_mbps = bandwidth_mbps;
  node.process_gb = 0;  // models of numbers are smaller than any process
  return node;
}

inline Pool equal_pool(int count, double ram_gb, double bandwidth_mbps) {
  Pool pool;
  for (int i = 0; i < count; ++i) pool.nodes.push_back(machine(ram_gb, bandwidth_mbps, 8080 + i));
  return pool;
}

// Clusters that are cut at these places, with the nodes in order: who runs what, and nothing else.
inline Plan cut_plan(int operators, const std::vector<std::vector<int>>& cuts) {
  Plan plan;
  plan.operators = operators;
  int nodes = 0;
  for (const std::vector<int>& own : cuts) {
    PlannedCluster& cluster = plan.clusters.emplace_back();
    for (std::size_t s = 0; s <= own.size(); ++s) {
      PlannedStage& stage = cluster.stages.emplace_back();
      stage.node = nodes++;
      stage.begin = s == 0 ? 0 : own[s - 1];
      stage.end = s == own.size() ? operators : own[s];
    }
  }
  plan.pool = equal_pool(nodes, 8, 10);
  return plan;
}

}  // namespace ravnest::plan
