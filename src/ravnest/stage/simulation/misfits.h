// Messages that no stage would send, or not twice, or not now.
#pragma once

#include <optional>
#include <vector>

#include "ravnest/stage/call.h"
#include "ravnest/stage/simulation/checker.h"

namespace ravnest::stage::simulation {

// One that does not fit at `stage`, in that phase of its call, given those that it has taken so far; none where what
// was drawn is not possible.
std::optional<Event> draw_misfit(Choices& choices, const Scenario& scenario, const Checker& checker, int stage,
                                 CallPhase phase, const std::vector<Event>& taken);

}  // namespace ravnest::stage::simulation
