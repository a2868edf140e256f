#include "ravnest/collective/simulation.h"

#include "ravnest/collective/simulation/run.h"

namespace ravnest::collective {

SimulationOutcome simulate(std::uint64_t seed, const Tell& tell, Sabotage sabotage) {
  return simulation::Run(seed, tell, sabotage).run();
}

}  // namespace ravnest::collective
