// The best plan there is, by looking at all of them: what the planner is held against.
#pragma once

#include <map>
#include <vector>

#include "ravnest/plan/pool/machine.h"
#include "ravnest/plan/predict/segments.h"
#include "ravnest/plan/search/form.h"

namespace ravnest::plan {

// Looks at all partitions of a pool's nodes, by time of all sets of nodes unless all are to be used, at all orders
// within clusters and all cuts. By RAM alone the order of the pool is kept, unless only another one fits.
class BruteForce {
 public:
  BruteForce(const ModelCosts& costs, std::vector<Machine> machines, Balance balance, const FormOptions& options);

  // Samples per second with as many passes in flight as stages, or 0 where nothing fits.
  double best();

 private:
  const std::vector<double>& periods(unsigned mask);
  const std::vector<double>& periods_of(unsigned mask);
  void consider(const std::vector<int>& order, std::vector<double>& best) const;
  void partition(unsigned placed);

  Segments segments_;
  std::vector<Machine> machines_;
  Balance balance_;
  TrainingOptions training_;
  int smallest_;
  bool may_spare_;
  double batch_;
  std::map<std::vector<int>, std::vector<double>> known_;
  std::vector<const std::vector<double>*> by_mask_;
  std::vector<unsigned> clusters_;
  double best_ = 0;
};

}  // namespace ravnest::plan
