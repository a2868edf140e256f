#include "ravnest/average/simulation/simulation.h"

#include "ravnest/average/simulation/run.h"

namespace ravnest::average {

SimulationOutcome& SimulationOutcome::operator+=(const SimulationOutcome& other) {
  events += other.events;
  messages += other.messages;
  attempts += other.attempts;
  commits += other.commits;
  rounds += other.rounds;
  crashes += other.crashes;
  returns += other.returns;
  newcomers += other.newcomers;
  outs += other.outs;
  partings += other.partings;
  checkpoints += other.checkpoints;
  misfits += other.misfits;
  ignored += other.ignored;
  return *this;
}

SimulationOutcome simulate(std::uint64_t seed, const Tell& tell, Sabotage sabotage) {
  return simulation::Run(seed, tell, sabotage).run();
}

}  // namespace ravnest::average
