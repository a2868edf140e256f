// Who averages with whom, by the operators of the model.
//
// Clusters may be cut differently, so a ring is carried by one or more averaging groups: runs of operators that a
// single node runs in every cluster. They are what is left between the cuts of all clusters, laid over each other. All
// tensors that are first used in an averaging group are averaged among its nodes, one per cluster, and with nobody
// else.
#pragma once

#include <vector>

#include "ravnest/plan/plan.h"

namespace ravnest::plan {

struct AveragingGroup {
  int number = 0;  // in the order of the operators
  int begin = 0;   // operators [begin, end) of the training graph
  int end = 0;
  int ring = 0;            // the stage of the longest cluster, the first of those, that it falls in
  std::vector<int> nodes;  // by cluster

  bool operator==(const AveragingGroup&) const = default;
};

// All of a plan, in the order of the operators, each of which is in exactly one. An averaging group may turn out to
// hold nothing: the plan does not know where in a stage its tensors are used. None for a plan of one cluster.
std::vector<AveragingGroup> averaging_groups_of(const Plan& plan);
// Those that a node takes part in; none for a node that the plan does not use.
std::vector<AveragingGroup> averaging_groups_of(const Plan& plan, int node);

// The one of `averaging_groups`, in their order, that an operator is in; the last one for what lies behind all of them,
// as the model's return does. nullptr where none has it. The averaging groups must outlive the result.
const AveragingGroup* averaging_group_at(const std::vector<AveragingGroup>& averaging_groups, int position);

}  // namespace ravnest::plan
