// How fast a pool would train as machines join, leave and change: the predictor over a scenario.
//
// After each event two things are predicted: the plan of the start as it would run on now, and a new plan for the pool
// as it is now. No machine is asked and nothing is written, so what takes time is the search for clusters, once
// per step.
//
// The kept plan goes on without what it cannot have: a cluster that lost a node stands still, the others average among
// themselves; a node that joined is unused. What cuts the models is fixed at the start: where the scenario does not
// say, it is what `plan` would choose for the pool of the start. A node whose compute is not known is assumed once,
// when it comes, to be like those that are there.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/plan/predict/costs.h"
#include "ravnest/plan/predict/predict.h"
#include "ravnest/plan/simulate/scenario.h"

namespace ravnest::plan {

// What one plan does at one moment.
struct PlanRate {
  double samples_per_s = 0;
  int clusters = 0;        // that train
  int still_clusters = 0;  // that lost a node
  int nodes = 0;           // of the clusters that train
  // Of the slowest cluster that trains, which the others wait for; -1 where none does.
  int slowest_cluster = -1;
  int slowest_node = -1;  // by its id in the scenario
  Limit limit = Limit::kCompute;
  double period_s = 0;
  int first_lost = -1;  // a node that a cluster stands still for, or -1

  bool operator==(const PlanRate&) const = default;
};

struct SimulatedStep {
  std::string event;  // "start", then each event's name
  int nodes = 0;      // in the pool
  PlanRate kept;
  std::optional<PlanRate> anew;  // nothing where no plan can be made for the pool as it is
  std::string no_plan;           // why not

  bool operator==(const SimulatedStep&) const = default;
};

// A set of clusters, as far as their speed goes.
struct PlacedCluster {
  std::vector<int> nodes;  // ids, in the order of the stages
  std::vector<StageLoad> loads;
  int window = 0;  // as planned; 0: as many passes as stages
};

// Machines by id; nothing for a node that is gone. `training.clusters` is taken from the clusters that train.
PlanRate rate(const std::vector<PlacedCluster>& clusters, const std::vector<std::optional<Machine>>& machines,
              std::int64_t batch, const TrainingAssumptions& training);

// The start and one step per event. `progress` is called with the share of the work that is done; where it returns
// false the simulation ends with kCancelled. kInvalid where there is no plan for the pool of the start, with the
// reason.
Result<std::vector<SimulatedStep>> simulate(const ModelCosts& costs, const Scenario& scenario,
                                            const std::function<bool(double)>& progress = {});

}  // namespace ravnest::plan
