// agreement_simulation: the simulation of how clusters agree on their rounds; seeds.h has the arguments.
#include "ravnest/average/simulation/simulation.h"
#include "ravnest/base/text.h"
#include "seeds.h"

int main(int count, char** arguments) {
  ravnest::average::SimulationOutcome total;
  const auto simulate = [&](std::uint64_t seed, const ravnest::Tell& tell) {
    const auto outcome = ravnest::average::simulate(seed, tell);
    total += outcome;
    return outcome.violation;
  };
  return ravnest::run_seeds("agreement_simulation", count, arguments, simulate, [&] {
    return ravnest::text(total.messages, " messages, ", total.attempts, " attempts, ", total.commits, " commits, ",
                         total.crashes, " crashes, ", total.returns, " returns, ", total.newcomers,
                         " newcomers taken in, ", total.outs, " outs, ", total.partings, " partings");
  });
}
