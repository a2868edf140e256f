#include "ravnest/plan/predict/predict.h"

#include <algorithm>
#include <cmath>

namespace ravnest::plan {
namespace {

std::int64_t on_the_wire(std::int64_t bytes, const TrainingAssumptions& options) {
  return static_cast<std::int64_t>(static_cast<double>(bytes) * options.sent_share);
}

StagePrediction predict_stage(const StageLoad& load, const Machine& machine, const TrainingAssumptions& options) {
  StagePrediction stage;
  stage.bytes_out = on_the_wire(load.sent_bytes + load.returned_bytes, options);
  stage.bytes_in = on_the_wire(load.received_bytes + load.gradient_bytes, options);
  stage.compute_s = load.work / machine.flops_per_s;
  return with_averaging(stage, machine, averaging_bytes(load, options));
}

}  // namespace

std::string_view name(Limit limit) {
  switch (limit) {
    case Limit::kCompute: return "compute";
    case Limit::kSend: return "send";
    case Limit::kReceive: return "receive";
    case Limit::kRoundTrip: return "round trip";
  }
  return "unknown";
}

double StagePrediction::busy_s() const { return std::max({compute_s, send_s, receive_s}); }

ClusterPrediction predict_cluster(std::span<const StageLoad> loads, std::span<const Machine> machines,
                                  std::int64_t batch, const TrainingAssumptions& options, int window) {
  const int stages = static_cast<int>(loads.size());
  ClusterPrediction cluster;
  cluster.window = window > 0 ? window : stages;
  for (int s = 0; s < stages; ++s) {
    StagePrediction stage = predict_stage(loads[s], machines[s], options);
    stage.versions = passes_in_flight({s, stages, cluster.window});
    stage.staleness = stage.versions - 1;
    cluster.round_trip_s += stage.compute_s;
    if (s > 0) cluster.round_trip_s += hop_s(loads[s], machines[s - 1], machines[s], options);
    cluster.stages.push_back(stage);
  }
  settle(cluster, batch);
  return cluster;
}

StagePrediction with_averaging(StagePrediction stage, const Machine& machine, double bytes) {
  stage.averaging_bytes = bytes;
  stage.send_s = (static_cast<double>(stage.bytes_out) + bytes) / machine.link_bytes_per_s;
  stage.receive_s = (static_cast<double>(stage.bytes_in) + bytes) / machine.link_bytes_per_s;
  return stage;
}

void settle(ClusterPrediction& cluster, std::int64_t batch) {
  cluster.period_s = 0;
  for (std::size_t s = 0; s < cluster.stages.size(); ++s) {
    const StagePrediction& stage = cluster.stages[s];
    if (stage.busy_s() <= cluster.period_s) continue;
    cluster.period_s = stage.busy_s();
    cluster.slowest_stage = static_cast<int>(s);
    cluster.limit = stage.compute_s >= cluster.period_s ? Limit::kCompute
                    : stage.send_s >= cluster.period_s  ? Limit::kSend
                                                        : Limit::kReceive;
  }
  if (cluster.round_trip_s / cluster.window > cluster.period_s) {
    cluster.period_s = cluster.round_trip_s / cluster.window;
    cluster.limit = Limit::kRoundTrip;
  }
  for (StagePrediction& stage : cluster.stages) {
    if (cluster.period_s <= 0) break;
    stage.out_bytes_per_s = (static_cast<double>(stage.bytes_out) + stage.averaging_bytes) / cluster.period_s;
    stage.in_bytes_per_s = (static_cast<double>(stage.bytes_in) + stage.averaging_bytes) / cluster.period_s;
  }
  cluster.samples_per_s = cluster.period_s > 0 ? static_cast<double>(batch) / cluster.period_s : 0;
}

int window_for(std::span<const StageLoad> loads, std::span<const Machine> machines,
               const TrainingAssumptions& options) {
  const int stages = static_cast<int>(loads.size());
  const ClusterPrediction unbounded = predict_cluster(loads, machines, 1, options, kMostPassesPerStage * stages);
  double busy_s = 0;
  for (const StagePrediction& stage : unbounded.stages) busy_s = std::max(busy_s, stage.busy_s());
  if (busy_s <= 0 || unbounded.round_trip_s <= stages * busy_s) return stages;
  // One more than is needed on average, so that a late message does not leave anyone without work.
  const double wanted = std::ceil(unbounded.round_trip_s / busy_s) + 1;
  int window = static_cast<int>(std::min<double>(wanted, kMostPassesPerStage * stages));
  const auto fits = [&](int passes) {
    for (int s = 0; s < stages; ++s) {
      const auto memory =
          static_cast<double>(stage_memory(loads[s], machines[s], {s, stages, passes}, options).total());
      if (memory > kFilledByWindow * machines[s].ram_bytes) return false;
    }
    return true;
  };
  while (window > stages && !fits(window)) --window;
  return window;
}

double hop_s(const StageLoad& load, const Machine& before, const Machine& here, const TrainingAssumptions& options) {
  const double bytes_per_s = std::min(before.link_bytes_per_s, here.link_bytes_per_s);
  return static_cast<double>(on_the_wire(load.received_bytes + load.returned_bytes, options)) / bytes_per_s +
         2 * std::max(before.latency_s, here.latency_s);
}

double averaging_bytes(const StageLoad& load, const TrainingAssumptions& options) {
  const double moved = 2.0 * (options.clusters - 1) / options.clusters;
  return moved * static_cast<double>(load.owned_bytes) * options.sent_share / options.updates_per_round;
}

double period_s(std::span<const StageLoad> loads, std::span<const Machine> machines,
                const TrainingAssumptions& options) {
  double period = 0;
  double round_trip = 0;
  for (std::size_t s = 0; s < loads.size(); ++s) {
    const StagePrediction stage = predict_stage(loads[s], machines[s], options);
    period = std::max(period, stage.busy_s());
    round_trip += stage.compute_s;
    if (s > 0) round_trip += hop_s(loads[s], machines[s - 1], machines[s], options);
  }
  return std::max(period, round_trip / static_cast<double>(loads.size()));
}

double pool_samples_per_s(std::span<const ClusterPrediction> clusters) {
  double slowest = clusters.empty() ? 0 : clusters.front().samples_per_s;
  for (const ClusterPrediction& cluster : clusters) slowest = std::min(slowest, cluster.samples_per_s);
  return slowest * static_cast<double>(clusters.size());
}

}  // namespace ravnest::plan
