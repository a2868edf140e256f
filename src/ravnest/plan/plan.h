// A plan: which node runs which stage, over which rings clusters average, and how fast that will be.
//
// Plain data, complete without the model: `plan.json` holds all of it, and `explain`, the drawing and the nodes
// themselves need nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/plan/pool/pool.h"
#include "ravnest/plan/predict/costs.h"
#include "ravnest/plan/predict/memory.h"
#include "ravnest/plan/predict/predict.h"
#include "ravnest/plan/search/cut.h"
#include "ravnest/plan/search/form.h"

namespace ravnest::plan {

// The first node of a cluster feeds the data, the last has the labels; one alone does both.
std::string_view role(int stage, int stages);  // "root", "stem", "leaf", "solo"

struct RingPart {
  int ring = 0;
  std::string first_parameter;  // label
  std::int64_t elements = 0;
};

struct NextOwner {
  int node = 0;                 // of the next cluster
  std::string first_parameter;  // label of the first parameter that both own
};

struct PlannedStage {
  int node = 0;
  int begin = 0;  // operators [begin, end) of the training graph
  int end = 0;
  std::string first_operator;
  std::string module;           // of the first operator that has one
  std::int64_t parameters = 0;  // elements that it owns
  std::int64_t trainable = 0;   // of those
  StageMemory memory;
  StagePrediction prediction;
  std::vector<RingPart> rings;
  std::vector<NextOwner> next_owners;
};

struct PlannedCluster {
  std::vector<PlannedStage> stages;
  double round_trip_s = 0;
  double period_s = 0;
  double samples_per_s = 0;
  int window = 1;  // passes in flight
  int slowest_stage = 0;
  Limit limit = Limit::kCompute;
};

struct Plan {
  std::string id;  // of this plan alone; its certificates carry it
  Pool pool;
  Balance balance = Balance::kParams;
  std::uint64_t seed = 0;
  TrainingAssumptions training;
  std::int64_t batch = 1;
  std::int64_t memory_bytes = 0;  // of training the model on one machine
  int operators = 0;
  std::vector<PlannedCluster> clusters;
  std::vector<int> unused;   // nodes without a stage
  std::vector<int> spares;   // of those, the ones without which the pool is faster
  double samples_per_s = 0;  // of the pool
  std::vector<std::string> notes;

  // The cluster and stage of a node, or {-1, -1}.
  std::pair<int, int> place_of(int node) const;
  // Positions of a cluster's cuts, for slicing the model.
  std::vector<int> cuts(int cluster) const;
};

// The formation with all that follows from it.
Plan complete_plan(const ModelCosts& costs, const Pool& pool, const Formation& formation, const FormOptions& options);

// "Model Memory:  N", in MB.
std::string memory_line(const Plan& plan);
// What is printed of every node, in the form that other tools read.
std::string node_blocks(const Plan& plan);

std::string encode_plan(const Plan& plan);  // as JSON
// kCorrupt, with the place, for what is not a plan; kUnsupported for one of a later version.
Result<Plan> decode_plan(std::string_view json, std::string_view what);

}  // namespace ravnest::plan
