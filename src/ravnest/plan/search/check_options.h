// Whether what goes into a plan can be reckoned with: no number is out of its range, no sum overflows.
#pragma once

#include "ravnest/base/status.h"
#include "ravnest/plan/predict/costs.h"
#include "ravnest/plan/search/form.h"

namespace ravnest::plan {

// kInvalid, in words for who gave the options or the model.
Status check_options(const FormOptions& options, int nodes);
// Whether the model's bytes, on so many nodes and with all passes that may be in flight, fit the numbers that count
// them.
Status check_sums(const ModelCosts& costs, int nodes, const TrainingAssumptions& training);

}  // namespace ravnest::plan
