// Whether what came out as a plan can be reckoned with: no figure is negative, infinite or none at all.
#pragma once

#include "ravnest/base/status.h"
#include "ravnest/plan/plan.h"

namespace ravnest::plan {

// kInternal for a plan that must not be written, kept or shown, with the figure that is wrong.
Status check_figures(const Plan& plan);

}  // namespace ravnest::plan
