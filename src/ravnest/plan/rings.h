// Over which rings clusters average which parameters.
//
// The longest cluster's stage r makes ring r: the parameters that this stage is the first to use. Every other node
// serves each ring that its own parameters fall in, with the run of parameters that it shares with it. So a parameter
// of a cluster is in exactly one ring, and a ring's members in one cluster together own all of it.
#pragma once

#include <vector>

#include "ravnest/plan/predict/costs.h"

namespace ravnest::plan {

// Parameters [first, end), by their place among the trainable ones in the order of first use.
struct Run {
  int first = 0;
  int end = 0;
  bool empty() const { return first >= end; }
  bool operator==(const Run&) const = default;
};

struct RingShare {
  int ring = 0;
  Run run;
};

struct Neighbour {
  int stage = 0;  // of the next cluster
  Run run;        // what both own
};

struct StageRings {
  Run owned;
  std::vector<RingShare> shares;      // by ring
  std::vector<Neighbour> neighbours;  // in the next cluster, which is the own one where there is only one
};

// The trainable parameters, as places in costs.stored.
std::vector<int> trainable_parameters(const ModelCosts& costs);

// For each cluster its stages, given every cluster's cuts.
std::vector<std::vector<StageRings>> form_rings(const ModelCosts& costs, const std::vector<std::vector<int>>& cuts);

}  // namespace ravnest::plan
