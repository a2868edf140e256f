// A plan as a drawing.
#pragma once

#include <string>

#include "ravnest/plan/plan.h"

namespace ravnest::plan {

// An SVG document: one row per cluster with its stages in order, their nodes and figures, and the rings that join them.
std::string to_svg(const Plan& plan);

}  // namespace ravnest::plan
