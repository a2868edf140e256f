// Whom a node talks to when a plan is carried out.
#pragma once

#include <vector>

#include "ravnest/plan/plan.h"

namespace ravnest::plan {

// All other nodes of its cluster, those of the next cluster that own parameters which it owns too, and those of the
// cluster before it for which it is such a one. In order; none for a node that the plan does not use.
std::vector<int> peers_of(const Plan& plan, int node);

}  // namespace ravnest::plan
