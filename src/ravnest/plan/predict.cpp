#include "ravnest/plan/predict.h"

#include <algorithm>

namespace ravnest::plan {
namespace {

StagePrediction predict_stage(const StageLoad& load, const Machine& machine, const TrainingOptions& options) {
  StagePrediction stage;
  stage.bytes_out = load.sent_bytes + load.returned_bytes;
  stage.bytes_in = load.received_bytes + load.gradient_bytes;
  stage.averaging_bytes = averaging_bytes(load, options);
  stage.compute_s = load.work / machine.flops_per_s;
  stage.send_s = (static_cast<double>(stage.bytes_out) + stage.averaging_bytes) / machine.link_bytes_per_s;
  stage.receive_s = (static_cast<double>(stage.bytes_in) + stage.averaging_bytes) / machine.link_bytes_per_s;
  return stage;
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
                                  std::int64_t batch, const TrainingOptions& options) {
  const int stages = static_cast<int>(loads.size());
  ClusterPrediction cluster;
  for (int s = 0; s < stages; ++s) {
    StagePrediction stage = predict_stage(loads[s], machines[s], options);
    stage.versions = passes_in_flight(s, stages);
    stage.staleness = stages - 1 - s;
    cluster.round_trip_s += stage.compute_s;
    if (s > 0) cluster.round_trip_s += hop_s(loads[s], machines[s - 1], machines[s]);
    if (stage.busy_s() > cluster.period_s) {
      cluster.period_s = stage.busy_s();
      cluster.slowest_stage = s;
      cluster.limit = stage.compute_s >= cluster.period_s ? Limit::kCompute
                      : stage.send_s >= cluster.period_s  ? Limit::kSend
                                                          : Limit::kReceive;
    }
    cluster.stages.push_back(stage);
  }
  if (cluster.round_trip_s / stages > cluster.period_s) {
    cluster.period_s = cluster.round_trip_s / stages;
    cluster.limit = Limit::kRoundTrip;
  }
  for (StagePrediction& stage : cluster.stages) {
    if (cluster.period_s <= 0) break;
    stage.out_bytes_per_s = (static_cast<double>(stage.bytes_out) + stage.averaging_bytes) / cluster.period_s;
    stage.in_bytes_per_s = (static_cast<double>(stage.bytes_in) + stage.averaging_bytes) / cluster.period_s;
  }
  cluster.samples_per_s = cluster.period_s > 0 ? static_cast<double>(batch) / cluster.period_s : 0;
  return cluster;
}

double hop_s(const StageLoad& load, const Machine& before, const Machine& here) {
  const double bytes_per_s = std::min(before.link_bytes_per_s, here.link_bytes_per_s);
  return static_cast<double>(load.received_bytes + load.returned_bytes) / bytes_per_s +
         2 * std::max(before.latency_s, here.latency_s);
}

double averaging_bytes(const StageLoad& load, const TrainingOptions& options) {
  const double moved = 2.0 * (options.clusters - 1) / options.clusters;
  return moved * static_cast<double>(load.owned_bytes) / options.updates_per_round;
}

double period_s(std::span<const StageLoad> loads, std::span<const Machine> machines, const TrainingOptions& options) {
  double period = 0;
  double round_trip = 0;
  for (std::size_t s = 0; s < loads.size(); ++s) {
    const StagePrediction stage = predict_stage(loads[s], machines[s], options);
    period = std::max(period, stage.busy_s());
    round_trip += stage.compute_s;
    if (s > 0) round_trip += hop_s(loads[s], machines[s - 1], machines[s]);
  }
  return std::max(period, round_trip / static_cast<double>(loads.size()));
}

double pool_samples_per_s(std::span<const ClusterPrediction> clusters) {
  double slowest = clusters.empty() ? 0 : clusters.front().samples_per_s;
  for (const ClusterPrediction& cluster : clusters) slowest = std::min(slowest, cluster.samples_per_s);
  return slowest * static_cast<double>(clusters.size());
}

}  // namespace ravnest::plan
