// How fast a plan will train: a pure function of the stages' loads and the machines.
//
// In steady state nobody waits while there is work: computing, sending and receiving overlap. So the time between two
// batches is the longest of what any node computes, sends or receives for one batch, and of the way of one batch
// through the pipeline and back, divided by the passes in flight. Links carry each way at the node's own bandwidth,
// which makes a transfer as fast as the slower of its two ends; averaging between clusters shares them. The genetic
// algorithm scores its candidates with this code, and `explain` shows its figures.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string_view>
#include <vector>

#include "ravnest/plan/pool/machine.h"
#include "ravnest/plan/predict/memory.h"
#include "ravnest/plan/predict/segments.h"

namespace ravnest::plan {

enum class Limit : std::uint8_t { kCompute, kSend, kReceive, kRoundTrip };
std::string_view name(Limit limit);

struct StagePrediction {
  double compute_s = 0;  // forward, backward and update of one batch
  double send_s = 0;     // activations, gradients, and its part of averaging
  double receive_s = 0;
  double averaging_bytes = 0;  // of the link, each way, per batch
  std::int64_t bytes_out = 0;  // per batch, without averaging
  std::int64_t bytes_in = 0;
  double out_bytes_per_s = 0;  // on its link, averaging included
  double in_bytes_per_s = 0;
  int versions = 1;   // of the weights, the newest included
  int staleness = 0;  // updates between a pass's forward and the update that it leads to

  double busy_s() const;
};

struct ClusterPrediction {
  std::vector<StagePrediction> stages;
  double round_trip_s = 0;  // of one batch, from the root to the leaf and back
  double period_s = 0;      // between two batches
  double samples_per_s = 0;
  int window = 1;  // passes in flight
  int slowest_stage = 0;
  Limit limit = Limit::kCompute;  // of the slowest stage; kRoundTrip where the window is the limit
};

// `machines[s]` runs stage s; `window` passes are in flight, 0: as many as there are stages.
ClusterPrediction predict_cluster(std::span<const StageLoad> loads, std::span<const Machine> machines,
                                  std::int64_t batch, const TrainingAssumptions& options, int window = 0);

// As many passes in flight as keep the slowest stage busy while a batch is on its way there and back, as far as that
// fills no machine's memory beyond kFilledByWindow: where RAM is short the smaller window is the better one. Not less
// than there are stages, and not more than kMostPassesPerStage times as many: each makes weights older.
int window_for(std::span<const StageLoad> loads, std::span<const Machine> machines, const TrainingAssumptions& options);
inline constexpr int kMostPassesPerStage = 8;
inline constexpr double kFilledByWindow = 0.75;

// Every cluster goes as fast as the slowest, which the others wait for when they average.
double pool_samples_per_s(std::span<const ClusterPrediction> clusters);

// The time between two batches alone, with as many passes in flight as stages, for those who score thousands of
// candidates: predict_cluster(...).period_s.
double period_s(std::span<const StageLoad> loads, std::span<const Machine> machines,
                const TrainingAssumptions& options);

// The hop of a batch between a stage and the one before it, there and back.
double hop_s(const StageLoad& load, const Machine& before, const Machine& here, const TrainingAssumptions& options);

// Bytes that averaging moves each way over a node's link, per batch: a reduce-scatter and an all-gather, each of
// (n-1)/n of what the node owns, compressed like all else. It goes on while the clusters train, so nobody waits for
// it as long as the link has room.
double averaging_bytes(const StageLoad& load, const TrainingAssumptions& options);

// The stage where averaging moves `bytes` each way per batch instead: other times of its link, all else as it is.
// Rates over the link wait for `settle`.
StagePrediction with_averaging(StagePrediction stage, const Machine& machine, double bytes);

// What follows from a cluster's stages, its way there and back and its window: all that is left of a prediction.
void settle(ClusterPrediction& cluster, std::int64_t batch);

}  // namespace ravnest::plan
