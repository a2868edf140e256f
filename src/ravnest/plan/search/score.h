// What a group of nodes is worth as a cluster, and a set of clusters as a pool.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ravnest/plan/predict/predict.h"
#include "ravnest/plan/search/order.h"

namespace ravnest::plan {

// What a cluster is worth depends on how many average with each other: alone, with one, with two, with more.
using ClusterScores = std::array<std::unique_ptr<ClusterScore>, 4>;

// A cluster in the making: its nodes in ascending order, and what is known of their worth.
struct Group {
  std::vector<int> members;
  ClusterScores* scores = nullptr;  // the scorer's; filled when asked for
};
using Groups = std::vector<Group>;

// A model with all places to cut it, and with fewer, for clusters that are tried by the thousand: few for short ones,
// more for long ones.
struct CutViews {
  explicit CutViews(const ModelCosts& costs);

  // The places that Effort::kExact tries: all, where they are not many.
  const Segments& exact() const;

  std::int64_t batch;
  Segments fine;
  Segments middle;
  Segments coarse;
};

// A cluster's nodes keep the order of the pool file, unless only another order fits, or, where time is balanced,
// another promises clearly more. In large pools other orders are tried at the end only, by `refine`. Scores are kept:
// clusters of like machines in like order are worked out once. Not thread-safe.
class Scorer {
 public:
  // `views` must outlive the scorer.
  // `effort` is what is spent on each cluster; by default as much as a pool of that size allows.
  Scorer(const CutViews& views, std::vector<Machine> machines, Balance balance, const TrainingAssumptions& training,
         std::optional<Effort> effort = std::nullopt);

  // `members` ascending.
  Group group(std::vector<int> members);
  const ClusterScore& score(const Group& group, int clusters);
  // Between two batches; the cluster must fit.
  double period_s(const Group& group, int clusters);

  // Higher is better. Positive where every cluster fits: samples/s, with fewer hops and less staleness as a tie-break.
  // Else negative, nearer to zero the less is missing.
  double pool(const Groups& groups);

  // The same cluster worked out with more effort; over all places to cut, but for large pools.
  ClusterScore refine(const Group& group, int clusters);

  // What scoring has cost so far, in steps of some nanoseconds: the same on every machine, unlike a clock, so that a
  // search can be given an end that does not depend on it.
  double steps() const { return steps_; }

  int nodes() const { return static_cast<int>(machines_.size()); }
  const std::vector<Machine>& machines() const { return machines_; }
  int most_stages() const { return views_.fine.most_stages(); }

 private:
  Ordering::Places places_for(std::size_t stages) const;
  TrainingAssumptions training_with(int clusters) const;
  std::vector<Machine> machines_of(const Group& group) const;

  const CutViews& views_;
  std::vector<Machine> machines_;
  Balance balance_;
  TrainingAssumptions training_;
  Effort effort_;
  double steps_ = 0;
  std::vector<int> classes_;             // per node; equal machines are of one class
  std::vector<Machine> class_machines_;  // per class
  struct Hash {
    std::size_t operator()(const std::vector<int>& key) const;
  };
  std::unordered_map<std::vector<int>, std::unique_ptr<ClusterScores>, Hash> scores_;
};

}  // namespace ravnest::plan
