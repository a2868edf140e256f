#include <algorithm>

#include "ravnest/stage/simulation/simulation.h"

namespace ravnest::stage {
namespace {

class Shrinking {
 public:
  Shrinking(const SimulationOutcome& broken, Sabotage sabotage, int runs)
      : best_(broken), sabotage_(sabotage), runs_(runs) {}

  SimulationOutcome run() {
    std::vector<std::uint64_t> before;
    do {
      before = best_.choices;
      for (std::size_t length = before.size(); length > 0; length /= 2) delete_blocks(length);
      for (std::size_t length = before.size(); length > 0; length /= 2) clear_blocks(length);
      lower_values();
    } while (best_.choices != before && runs_ > 0);
    return best_;
  }

 private:
  // Whether these choices break the same promise; then they are the best so far.
  bool holds(const std::vector<std::uint64_t>& choices) {
    if (runs_-- <= 0) return false;
    SimulationOutcome outcome = replay(choices, {}, sabotage_);
    if (outcome.violation.empty() || outcome.promise != best_.promise) return false;
    // What the run made of them: shorter where it ended before their end, without zeros at the end.
    std::vector<std::uint64_t>& made = outcome.choices;
    while (!made.empty() && made.back() == 0) made.pop_back();
    if (made.size() > best_.choices.size() || (made.size() == best_.choices.size() && made >= best_.choices))
      return false;
    best_ = std::move(outcome);
    return true;
  }

  void delete_blocks(std::size_t length) {
    for (std::size_t end = best_.choices.size(); end >= length && runs_ > 0;) {
      std::vector<std::uint64_t> shorter = best_.choices;
      const auto first = shorter.begin() + static_cast<std::ptrdiff_t>(end - length);
      shorter.erase(first, first + static_cast<std::ptrdiff_t>(length));
      holds(shorter);
      end = std::min(end - length, best_.choices.size());
    }
  }

  void clear_blocks(std::size_t length) {
    for (std::size_t first = 0; first + length <= best_.choices.size() && runs_ > 0; first += length) {
      std::vector<std::uint64_t> simpler = best_.choices;
      const auto at = simpler.begin() + static_cast<std::ptrdiff_t>(first);
      std::fill(at, at + static_cast<std::ptrdiff_t>(length), 0);
      if (simpler != best_.choices) holds(simpler);
    }
  }

  void lower_values() {
    for (std::size_t at = 0; at < best_.choices.size() && runs_ > 0; ++at) {
      // The step is halved down to one, so that a value falls quickly and ends at its least.
      for (std::uint64_t step = best_.choices[at]; step > 0 && runs_ > 0; step /= 2) {
        while (at < best_.choices.size() && best_.choices[at] >= step) {
          std::vector<std::uint64_t> lower = best_.choices;
          lower[at] -= step;
          if (!holds(lower)) break;
        }
      }
    }
  }

  SimulationOutcome best_;
  Sabotage sabotage_;
  int runs_;
};

}  // namespace

SimulationOutcome shrink(const SimulationOutcome& broken, Sabotage sabotage, int runs) {
  return Shrinking(broken, sabotage, runs).run();
}

}  // namespace ravnest::stage
