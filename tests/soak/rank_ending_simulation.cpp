// rank_ending_simulation: the simulation of how the ranks of data-parallel runs end; seeds.h has the arguments.
#include "ravnest/base/text.h"
#include "ravnest/strategy/launch/testing/ending_simulation.h"
#include "seeds.h"

int main(int count, char** arguments) {
  ravnest::strategy::EndingsOutcome total;
  const auto simulate = [&](std::uint64_t seed, const ravnest::Tell& tell) {
    const auto outcome = ravnest::strategy::simulate_endings(seed, tell);
    total += outcome;
    return outcome.violation;
  };
  return ravnest::run_seeds("rank_ending_simulation", count, arguments, simulate, [&] {
    return ravnest::text(total.failures, " failures, ", total.kills, " kills, ", total.kills_while_ending,
                         " of them while ranks ended, ", total.leaves, " leaves, ", total.breaks, " breaks, ",
                         total.messages, " messages, ", total.endings, " endings");
  });
}
