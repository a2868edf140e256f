// What a driver and its worker ask and tell of the rounds in which clusters average their weights.
//
// Rounds are counted by each cluster for itself, from 1. All functions are safe from any thread and never wait; who
// implements it interrupts the endpoint's training channel when the answer to `rounds` has changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/average/agreement.h"
#include "ravnest/base/status.h"

namespace ravnest::average {

// Of one averaging group, in an order that is the same in every cluster.
struct GroupValues {
  std::vector<float> parameters;
  std::vector<float> statistics = {};       // that a model keeps as it trains: batch norm's means and variances
  std::vector<float> optimizer_state = {};  // where that is averaged too
};
using StageValues = std::vector<GroupValues>;  // by averaging group of the stage

// What a stage keeps from round to round beside its weights, for checkpoints. All are by averaging group; empty where
// there is none.
struct CarriedState {
  std::vector<std::vector<float>> momentum = {};   // of the outer optimizer
  std::vector<std::vector<float>> residuals = {};  // what compression has lost of this stage's differences
  // Whether rounds are of differences to what all hold, which is the last mean; weights of 16 bits are that, rounded.
  bool holds = false;
};

struct RoundResult {
  StageValues given;                         // by this stage
  StageValues mean;                          // of what all gave
  std::optional<CarriedState> carried = {};  // as of this round, where a checkpoint is made of it
};

// How the cluster stands with its rounds, all of it as of one moment. Stages other than the root see `held` and
// `status`.
struct RoundState {
  std::uint64_t held = 0;  // the cluster's last round that holds
  bool called = false;     // another cluster needs a round: the next one should be entered soon
  bool wants_pass =
      false;              // a round has begun which the cluster, though it trains no more, enters by an averaging pass
  bool finished = false;  // `finish` was said, and `resume` was not since
  bool over = false;      // after `finish`: all clusters have finished, and the round after that holds
  std::uint64_t checkpoint = 0;  // of that round: all stages take their snapshots for this one with its result; 0: none
  bool checkpoint_next = false;  // the next round is for a checkpoint: an averaging pass enters it, as soon as can be
  std::vector<std::string> waiting_for = {};  // names of the roots without whom the round can't be held just now
  Status status = {};                         // why no round can be held any more, if that is so: the run has to end
};

class Averaging {
 public:
  Averaging() = default;
  Averaging(const Averaging&) = delete;
  Averaging& operator=(const Averaging&) = delete;
  virtual ~Averaging() = default;

  // What every cluster begins with, or goes on from a checkpoint with: to be said before anything else.
  virtual void begin_with(StageValues values, CarriedState carried) = 0;
  // This stage's part in the cluster's round. One round is held before the next is given to.
  virtual void give(std::uint64_t round, StageValues values) = 0;
  virtual RoundState rounds() const = 0;
  // The result of the last round that holds, once.
  virtual RoundResult take() = 0;

  // -- of the root

  // The cluster enters its round, with the samples that it has trained on since the last one. A checkpoint can be made
  // of the round where an averaging pass enters it.
  virtual void enter(std::uint64_t round, std::uint64_t samples, Capture capture) = 0;
  // It trains no more in this call; its samples since the last round count in the next one.
  virtual void finish(std::uint64_t samples, Capture capture) = 0;
  // It trains again.
  virtual void resume() = 0;
};

}  // namespace ravnest::average
