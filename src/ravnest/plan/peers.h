// Whom a node talks to when a plan is carried out.
#pragma once

#include <vector>

#include "ravnest/plan/plan.h"

namespace ravnest::plan {

// All other nodes of its cluster, and those of all other clusters that it shares an averaging group with
// (averaging_groups.h), so that two of an averaging group can always reach each other, whoever of it is missing. The
// roots of all clusters share the first averaging group. In order; none for a node that the plan does not use. Talking
// is mutual.
std::vector<int> peers_of(const Plan& plan, int node);

}  // namespace ravnest::plan
