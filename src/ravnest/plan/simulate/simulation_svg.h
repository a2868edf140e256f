// A simulation as a plot.
#pragma once

#include <string>
#include <vector>

#include "ravnest/plan/simulate/simulate.h"

namespace ravnest::plan {

// An SVG document with two step curves over the events, samples per second of the kept plan and of a new one. The
// second has a gap where nothing can be planned. Of very many events not every one has its name below the axis.
std::string simulation_svg(const std::vector<SimulatedStep>& steps);

}  // namespace ravnest::plan
