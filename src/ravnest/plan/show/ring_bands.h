// Which part of a stage's edge each ring takes in the drawing of a plan, and which parts of two clusters belong
// together.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/plan/plan.h"

namespace ravnest::plan {

// Where one stage's share of a ring lies.
struct RingBand {
  int ring = 0;
  int stage = 0;
  std::int64_t first = 0;  // elements [first, end) of the ring
  std::int64_t end = 0;
  double left = 0;  // of the stage's edge, 0 to 1
  double right = 0;
};

// Elements that two clusters both hold: a run on either one's edge.
struct RingJoint {
  int ring = 0;
  int upper_stage = 0;
  double upper_left = 0;
  double upper_right = 0;
  int lower_stage = 0;
  double lower_left = 0;
  double lower_right = 0;
};

// In the order of the stages. A stage's edge is divided among its rings by their elements.
std::vector<RingBand> ring_bands(const PlannedCluster& cluster);
std::vector<RingJoint> ring_joints(const std::vector<RingBand>& upper, const std::vector<RingBand>& lower);

}  // namespace ravnest::plan
