// The best plan there is, by looking at all of them: what the planner is held against.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ravnest/plan/pool/machine.h"
#include "ravnest/plan/predict/segments.h"
#include "ravnest/plan/search/form.h"

namespace ravnest::plan {

// Of a plan, in samples per second; 0: there is none.
struct PlanSpeed {
  double searched = 0;  // with as many passes in flight as stages, which is what a search compares
  double promised = 0;  // with the window that each cluster gets in the end
};

// Looks at all partitions of a pool's nodes, by time of all sets of nodes unless all are to be used, at all orders
// within clusters and all cuts. By RAM alone the order of the pool is kept, unless only another one fits.
class BruteForce {
 public:
  BruteForce(const ModelCosts& costs, std::vector<Machine> machines, Balance balance, const FormOptions& options);

  // Of the plan that is the best with as many passes in flight as stages.
  PlanSpeed best();

 private:
  // Between two batches of a cluster, and with its window.
  struct Periods {
    double searched_s = 0;
    double promised_s = 0;
  };

  const std::vector<Periods>& periods(unsigned mask);
  const std::vector<Periods>& periods_of(unsigned mask);
  void consider(const std::vector<int>& order, std::vector<Periods>& best) const;
  void partition(unsigned placed);

  Segments segments_;
  std::vector<Machine> machines_;
  Balance balance_;
  TrainingAssumptions training_;
  int smallest_;
  bool may_spare_;
  std::int64_t batch_;
  std::map<std::vector<int>, std::vector<Periods>> known_;
  std::vector<const std::vector<Periods>*> by_mask_;
  std::vector<unsigned> clusters_;
  PlanSpeed best_;
};

}  // namespace ravnest::plan
