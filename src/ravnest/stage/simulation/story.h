// A simulated run as lines for people.
#pragma once

#include <string>

#include "ravnest/stage/simulation/network.h"
#include "ravnest/stage/simulation/scenario.h"

namespace ravnest::stage::simulation {

std::string in_words(const Work& work);
std::string in_words(const Event& event);
std::string in_words(const wire::Failed& reason);
// The cluster, several lines.
std::vector<std::string> in_words(const Scenario& scenario);

}  // namespace ravnest::stage::simulation
