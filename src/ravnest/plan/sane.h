// Whether what goes into a plan, and what came out, can be reckoned with: no sum overflows, no figure is negative,
// infinite or none at all.
#pragma once

#include "ravnest/base/status.h"
#include "ravnest/plan/plan.h"

namespace ravnest::plan {

// kInvalid, in words for who gave the options or the model.
Status check_options(const FormOptions& options, int nodes);
// Whether the model's bytes, on so many nodes and with all passes that may be in flight, fit the numbers that count
// them.
Status check_sums(const ModelCosts& costs, int nodes, const TrainingOptions& training);

// kInternal for a plan that must not be written, kept or shown, with the figure that is wrong.
Status check_figures(const Plan& plan);

}  // namespace ravnest::plan
