// transport_simulation: the transport's simulation; seeds.h has the arguments.
#include "ravnest/base/text.h"
#include "ravnest/transport/testing/simulation.h"
#include "seeds.h"

int main(int count, char** arguments) {
  ravnest::transport::SimulationOutcome total;
  const auto simulate = [&](std::uint64_t seed, const ravnest::Tell& tell) {
    const auto outcome = ravnest::transport::simulate(seed, tell);
    total += outcome;
    return outcome.violation;
  };
  return ravnest::run_seeds("transport_simulation", count, arguments, simulate, [&] {
    return ravnest::text(total.arrived, " messages arrived, ", total.failed, " failed, ", total.cuts, " cuts, ",
                         total.partitions, " partitions, ", total.restarts, " restarts, ", total.losses, " losses");
  });
}
