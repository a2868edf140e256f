#include "ravnest/plan/show/explain.h"

#include <algorithm>

#include "ravnest/base/words/table.h"
#include "ravnest/base/words/units.h"
#include "ravnest/plan/averaging.h"
#include "ravnest/plan/show/words.h"

namespace ravnest::plan {
namespace {

std::string passes(int number) { return text(number, number == 1 ? " pass" : " passes"); }

std::string updates(int number) { return number == 1 ? "update" : text(number, " updates"); }

double ram_bytes(const Plan& plan, int node) { return plan.pool.nodes[node].ram_gb * 1e9; }

// Where the stage begins: its first module, or its first operator where no module is known.
std::string stage_name(const PlannedStage& stage) { return stage.module.empty() ? stage.first_operator : stage.module; }

std::string cluster_table(const Plan& plan, int c) {
  const PlannedCluster& cluster = plan.clusters[c];
  Table table({"node", "address", "role", "begins at", "operators", "parameters", "memory", "free", "compute", "send",
               "receive", "bytes out", "link out", "link in", "versions"});
  const int stages = static_cast<int>(cluster.stages.size());
  for (int s = 0; s < stages; ++s) {
    const PlannedStage& stage = cluster.stages[s];
    const PoolNode& node = plan.pool.nodes[stage.node];
    const auto used = static_cast<double>(stage.memory.total());
    table.add({text(node_name(stage.node), node.label.empty() ? "" : " ", node.label), text(node.address),
               std::string(role(s, stages)), stage_name(stage), text(stage.end - stage.begin), text(stage.parameters),
               megabytes(used), megabytes(std::max(0.0, ram_bytes(plan, stage.node) - used)),
               duration(stage.prediction.compute_s), duration(stage.prediction.send_s),
               duration(stage.prediction.receive_s), quantity(static_cast<double>(stage.prediction.bytes_out), "B"),
               quantity(stage.prediction.out_bytes_per_s, "B/s"), quantity(stage.prediction.in_bytes_per_s, "B/s"),
               text(stage.prediction.versions)});
  }
  return table.text();
}

std::string memory_table(const Plan& plan) {
  Table table(
      {"node", "weights", "gradients", "optimizer", "stashed versions", "activations in flight", "process", "of RAM"});
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedStage& stage : cluster.stages) {
      const StageMemory& memory = stage.memory;
      const auto bytes = [](std::int64_t value) { return quantity(static_cast<double>(value), "B"); };
      const double share = 100 * static_cast<double>(memory.total()) / ram_bytes(plan, stage.node);
      table.add({node_name(stage.node), bytes(memory.weights), bytes(memory.gradients), bytes(memory.optimizer),
                 bytes(memory.versions), bytes(memory.activations), bytes(memory.process), quantity(share, "%")});
    }
  }
  return table.text();
}

// What a link is busy with, and what would help; averaging is named where it is the larger part.
std::string traffic(const StagePrediction& stage, std::int64_t bytes) {
  const auto of_batch = static_cast<double>(bytes);
  const bool mostly_averaging = stage.averaging_bytes > of_batch;
  return text(quantity(of_batch, "B"),
              mostly_averaging ? text(", and ", quantity(stage.averaging_bytes, "B"), " of averaging") : "", "); ",
              mostly_averaging ? "averaging less often, " : "", "compression, or more bandwidth there, would help");
}

// A node that is the slowest of several rings has one line.
std::string round_table(const Plan& plan, const std::vector<RoundCost>& rings) {
  Table table({"rings", "slowest member", "each way", "of its link"});
  std::vector<RoundCost> shown;
  for (const RoundCost& cost : rings) {
    if (cost.bytes <= 0 || std::ranges::find(shown, cost) != shown.end()) continue;
    shown.push_back(cost);
    std::vector<std::size_t> numbers;
    for (std::size_t ring = 0; ring < rings.size(); ++ring) {
      if (rings[ring] == cost) numbers.push_back(ring);
    }
    table.add({join(numbers), describe(plan.pool, cost.node), quantity(cost.bytes, "B"), duration(cost.link_s)});
  }
  return table.text();
}

// From how many updates between rounds on averaging does not matter.
std::string reduce_factor_sentence(const Plan& plan) {
  const std::optional<int> fewest = fewest_updates_that_matter_little(plan);
  if (!fewest) return "";
  if (*fewest == 1) return "Averaging every update already costs less than 1 % of the samples/s.\n";
  const int planned = plan.training.updates_per_round;
  if (planned >= *fewest)
    return text("From a reduce_factor of ", *fewest, " on, averaging costs less than 1 % of the samples/s.\n");
  const double left = samples_per_s_averaging_every(plan, planned) / samples_per_s_averaging_every(plan, 0);
  return text("Averaging every ", updates(planned), " costs ", quantity(100 * (1 - left), "%"),
              " of the samples/s; from a reduce_factor of ", *fewest, " on, less than 1 %.\n");
}

std::string averaging_sentence(const Plan& plan, std::size_t rings) {
  double worst = 0;
  int node = 0;
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedStage& stage : cluster.stages) {
      const double link = plan.pool.nodes[stage.node].bandwidth_mbps * 1e6 / 8;
      const double share = stage.prediction.averaging_bytes / link / cluster.period_s;
      if (share > worst) {
        worst = share;
        node = stage.node;
      }
    }
  }
  return text("Averaging over ", count(rings, "ring"), " every ", updates(plan.training.updates_per_round),
              " takes at most ", quantity(100 * worst, "%"), " of a link's time (", node_name(node), ").\n");
}

}  // namespace

std::string limit_sentence(const Plan& plan, int c) {
  const PlannedCluster& cluster = plan.clusters[c];
  const PlannedStage& stage = cluster.stages[cluster.slowest_stage];
  const std::string node = describe(plan.pool, stage.node);
  const StagePrediction& own = stage.prediction;
  switch (cluster.limit) {
    case Limit::kCompute:
      return text(node, " computes for ", duration(own.compute_s),
                  " per batch; a faster machine for this stage, or a "
                  "smaller stage (--balance time), would help");
    case Limit::kSend:
      return text(node, " sends for ", duration(own.send_s), " per batch (", traffic(own, own.bytes_out));
    case Limit::kReceive:
      return text(node, " receives for ", duration(own.receive_s), " per batch (", traffic(own, own.bytes_in));
    case Limit::kRoundTrip:
      return text("a batch takes ", duration(cluster.round_trip_s), " to the leaf and back, with ",
                  passes(cluster.window), " in flight; ", "links with less latency or more bandwidth would help");
  }
  return "";
}

std::string explain(const Plan& plan) {
  std::string result;
  std::size_t used = 0;
  for (const PlannedCluster& cluster : plan.clusters) used += cluster.stages.size();
  result += text("Plan ", plan.id, ": ", count(used, "node"), " in ", count(plan.clusters.size(), "cluster"),
                 ", cut by ", name(plan.balance), ", batches of ", plan.batch, ".\n");
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    const PlannedCluster& cluster = plan.clusters[c];
    result +=
        text("\nCluster ", c, ": ", quantity(cluster.samples_per_s, ""), " samples/s, ", duration(cluster.period_s),
             " per batch, ", passes(cluster.window), " in flight\n", cluster_table(plan, static_cast<int>(c)));
    result += text("limited: ", limit_sentence(plan, static_cast<int>(c)), "\n");
  }
  result += text("\nMemory\n", memory_table(plan));
  const std::vector<RoundCost> rings = slowest_of_rings(plan);
  if (!rings.empty()) result += text("\nAveraging, one round\n", round_table(plan, rings));
  result += text("\nPredicted: ", quantity(plan.samples_per_s, ""), " samples/s");
  if (plan.clusters.size() > 1) {
    const auto slowest = std::min_element(
        plan.clusters.begin(), plan.clusters.end(),
        [](const PlannedCluster& a, const PlannedCluster& b) { return a.samples_per_s < b.samples_per_s; });
    result += text(" (", plan.clusters.size(), " times the slowest, cluster ", slowest - plan.clusters.begin(),
                   "; the others wait for it when they average)");
  }
  result += "\n";
  if (!rings.empty()) result += averaging_sentence(plan, rings.size()) + reduce_factor_sentence(plan);
  for (const int node : plan.unused) {
    const bool spare = std::ranges::find(plan.spares, node) != plan.spares.end();
    result += text(describe(plan.pool, node), spare ? " is a spare.\n" : " is not used.\n");
  }
  for (const std::string& note : plan.notes) result += text("Note: ", note, "\n");
  return result;
}

}  // namespace ravnest::plan
