// In which order the machines of one cluster should stand, and where to cut for them.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/plan/search/cut.h"

namespace ravnest::plan {

struct ClusterScore {
  std::vector<int> order;  // of the stages: indices into the list of machines that were given
  Cutting cutting;
  std::vector<Machine> machines;  // in the order of the stages
  bool possible = false;          // whether the model has a stage for everyone
  bool fits() const { return possible && cutting.fits(); }
};

// How long to look for a better order.
enum class Effort : std::uint8_t {
  kLeast,   // the order by RAM, where the given one does not fit
  kLittle,  // only the order whose slowest stage is fastest, if that is quickly found: thousands of candidates a second
  kSome,    // and others beside it, for a millisecond
  kThorough,  // all orders of a small cluster, hundreds of a large one's
  kExact,     // all orders of up to seven machines, and full cuts
};

// The given order stays, unless only another fits, or, where time is balanced, another promises clearly more.
class Ordering {
 public:
  // Where to cut. Shares of RAM are always cut at `fine`; all else first at `coarse`, and at `middle` where that does
  // not fit or when a chosen cluster is refined. The three may be one.
  struct Places {
    const Segments& fine;
    const Segments& middle;
    const Segments& coarse;
  };
  // All must outlive the object.
  Ordering(const Places& places, const std::vector<Machine>& machines, Balance balance,
           const TrainingAssumptions& training, Effort effort);

  ClusterScore in_given_order() const;
  // Tries other orders too.
  ClusterScore best(const ClusterScore& given) const;
  // `known`, or what is found, whichever is better at `middle`.
  ClusterScore refined(const ClusterScore& known) const;

 private:
  using Order = std::vector<int>;

  // A candidate, at `coarse`, and by little effort within some hundredths; and one that was chosen, at `middle`.
  ClusterScore tried(Order order, Balance balance) const;
  ClusterScore chosen(Order order, Balance balance) const;
  ClusterScore in_order(const Segments& segments, Order order, Balance balance, bool quick) const;
  bool better(const ClusterScore& a, const ClusterScore& b, double margin = 1) const;
  double period(const ClusterScore& score) const;
  void search(ClusterScore& best) const;
  void climb(ClusterScore& best, int tries) const;
  double least_period_s(const std::vector<StageLoad>& fastest_slowest, const std::vector<int>& order) const;
  // What is left where shares of RAM do not fit.
  Balance other_balance() const { return balance_ == Balance::kMemory ? Balance::kMemory : Balance::kTime; }

  const Segments& fine_;
  const Segments& middle_;
  const Segments& coarse_;
  const std::vector<Machine>& machines_;
  Balance balance_;
  const TrainingAssumptions& training_;
  Effort effort_;
};

}  // namespace ravnest::plan
