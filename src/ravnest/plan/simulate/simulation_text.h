// A simulation for people and for tools: as a table, as advice, as bars, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "ravnest/plan/simulate/simulate.h"

namespace ravnest::plan {

// From this on planning anew is worth a word: new over kept samples per second.
inline constexpr double kWorthPlanningAnew = 1.1;

// "node_7 computes, 3.10 ms per batch; cluster 2 stands still, node_4 is gone".
std::string limit_words(const PlanRate& rate);

// Two tables with one line per step: the figures, and what limits them.
std::string simulation_table(const std::vector<SimulatedStep>& steps);
// One line for each step at which planning anew gains more than 10 %, or at which nothing can be planned any more;
// empty where there is none.
std::string advice(const std::vector<SimulatedStep>& steps);
// Two bars per step, for a terminal of `columns` characters.
std::string bars(const std::vector<SimulatedStep>& steps, int columns);
// {"version": 1, "steps": [...]}, with every figure of the steps.
std::string encode_steps(const std::vector<SimulatedStep>& steps);

}  // namespace ravnest::plan
