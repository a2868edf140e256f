// Why a model cannot be cut into more stages, in words.
#pragma once

#include <string>

#include "ravnest/plan/predict/costs.h"

namespace ravnest::plan {

// What stands in the way, as the rest of a sentence: the stretches without a place to cut that hold the most
// parameters, where they are and why, or the operator that holds them all; where nothing is in the way, that every
// stage needs a parameter of its own.
std::string what_limits_cuts(const ModelCosts& costs);

}  // namespace ravnest::plan
