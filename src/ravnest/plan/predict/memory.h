// The memory that a stage needs on its node.
#pragma once

#include <cstdint>

#include "ravnest/plan/pool/machine.h"
#include "ravnest/plan/predict/segments.h"

namespace ravnest::plan {

struct TrainingAssumptions {
  // Bytes of state that the optimizer keeps for a byte of trained weights: 2 for Adam and its relatives, 1 for SGD with
  // momentum, 0 for plain SGD.
  double optimizer_state = 2;
  // Updates between two averagings over the rings.
  int updates_per_round = 100;
  // How many clusters average with each other, as far as that is known when a model is cut for one of them.
  int clusters = 1;
  // Bytes on the wire per byte of what nodes send each other, stages and clusters: below 1 where that is compressed.
  double sent_share = 1;
};

struct StageMemory {
  std::int64_t weights = 0;  // and buffers
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t versions = 0;     // older weights, stashed for the passes in flight that began with them
  std::int64_t activations = 0;  // of all passes in flight, what is on its way in and out, and what operators need
  std::int64_t process = 0;      // what the process takes without the model: interpreter, libraries, its own buffers

  std::int64_t total() const { return weights + gradients + optimizer + versions + activations + process; }
  bool operator==(const StageMemory&) const = default;
};

// Where a stage stands in its cluster, and how many passes that has in flight: at least as many as it has stages.
struct StagePlace {
  int stage = 0;
  int stages = 1;
  int window = 1;
};

// Of the passes that a cluster has in flight, its window, at stage s at most all but s wait for their backward, each
// with the version of the weights that its forward used. A leaf's backward follows its forward: it never holds a second
// one.
constexpr int passes_in_flight(const StagePlace& place) {
  return place.stage + 1 == place.stages ? 1 : place.window - place.stage;
}

StageMemory stage_memory(const StageLoad& load, const Machine& machine, const StagePlace& place,
                         const TrainingAssumptions& options);

}  // namespace ravnest::plan
