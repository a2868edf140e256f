// Where to cut the model for the machines of one cluster, which are given in the order of the stages.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/plan/pool/machine.h"
#include "ravnest/plan/predict/memory.h"
#include "ravnest/plan/predict/segments.h"

namespace ravnest::plan {

enum class Balance : std::uint8_t {
  kParams,  // shares of the parameter count in proportion to RAM, cut greedily in the order of the graph
  kTime,    // the least time between two batches: the slowest stage as fast as possible, computing and sending counted
  kMemory,  // the fullest node as empty as possible
};
std::string_view name(Balance balance);
Result<Balance> parse_balance(std::string_view word);

struct Cutting {
  std::vector<int> cuts;         // ascending positions of operators, one fewer than stages
  std::vector<StageLoad> loads;  // as Segments knows them
  // The fullest node's memory, as a share of its RAM: above 1 the cutting does not fit.
  double fullest = 0;
  bool fits() const { return fullest <= 1; }
};

// Every stage gets a parameter of its own. Nothing where there are more machines than stages can be made.
//
// kParams gives what the shares ask for, whether it fits or not. kTime gives the best cutting that fits, or, where none
// does, what kMemory gives. kMemory is exact, no other cutting at these
// positions is better; so is kTime to within a thousandth.
//
// `quick` is for those who try thousands: where the round trip is the limit, kTime then comes within some hundredths.
std::optional<Cutting> cut(const Segments& segments, std::span<const Machine> machines, Balance balance,
                           const TrainingAssumptions& options, bool quick = false);

// How full the fullest node would be.
double fullest(std::span<const StageLoad> loads, std::span<const Machine> machines, const TrainingAssumptions& options);

}  // namespace ravnest::plan
