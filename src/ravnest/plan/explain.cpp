#include "ravnest/plan/explain.h"

#include <algorithm>

#include "ravnest/base/table.h"
#include "ravnest/base/units.h"

namespace ravnest::plan {
namespace {

std::string passes(int number) { return text(number, number == 1 ? " pass" : " passes"); }

std::string count(std::size_t number, std::string_view one) { return text(number, " ", one, number == 1 ? "" : "s"); }

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
  Table table({"node", "weights", "gradients", "optimizer", "stashed versions", "activations in flight", "of RAM"});
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedStage& stage : cluster.stages) {
      const StageMemory& memory = stage.memory;
      const auto bytes = [](std::int64_t value) { return quantity(static_cast<double>(value), "B"); };
      const double share = 100 * static_cast<double>(memory.total()) / ram_bytes(plan, stage.node);
      table.add({node_name(stage.node), bytes(memory.weights), bytes(memory.gradients), bytes(memory.optimizer),
                 bytes(memory.versions), bytes(memory.activations), quantity(share, "%")});
    }
  }
  return table.text();
}

int ring_count(const Plan& plan) {
  std::size_t longest = 0;
  for (const PlannedCluster& cluster : plan.clusters) longest = std::max(longest, cluster.stages.size());
  return static_cast<int>(longest);
}

std::string averaging_sentence(const Plan& plan) {
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
  return text("Averaging over ", count(ring_count(plan), "ring"), " every ", plan.training.updates_per_round,
              " updates takes at most ", quantity(100 * worst, "%"), " of a link's time (", node_name(node), ").\n");
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
      return text(node, " sends for ", duration(own.send_s), " per batch (",
                  quantity(static_cast<double>(own.bytes_out), "B"),
                  "); compression, or more bandwidth there, would help");
    case Limit::kReceive:
      return text(node, " receives for ", duration(own.receive_s), " per batch (",
                  quantity(static_cast<double>(own.bytes_in), "B"),
                  "); compression, or more bandwidth there, would help");
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
  result += text("\nPredicted: ", quantity(plan.samples_per_s, ""), " samples/s");
  if (plan.clusters.size() > 1) {
    const auto slowest = std::min_element(
        plan.clusters.begin(), plan.clusters.end(),
        [](const PlannedCluster& a, const PlannedCluster& b) { return a.samples_per_s < b.samples_per_s; });
    result += text(" (", plan.clusters.size(), " times the slowest, cluster ", slowest - plan.clusters.begin(),
                   "; the others wait for it when they average)");
  }
  result += "\n";
  if (plan.clusters.size() > 1) result += averaging_sentence(plan);
  for (const int node : plan.unused) result += text(describe(plan.pool, node), " is not used.\n");
  for (const std::string& note : plan.notes) result += text("Note: ", note, "\n");
  return result;
}

}  // namespace ravnest::plan
