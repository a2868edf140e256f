// One stage's graph, cut out of a whole one. Used by slice.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/cut/flow.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph {

// What each stage has to be given and has to hand on, in a chain of stages.
struct StageInterface {
  std::vector<ir::ValueId> inputs;   // tensors from earlier stages or the user, in order of their making
  std::vector<ir::ValueId> outputs;  // tensors for later stages; the last stage: unused, it returns the model's outputs
  std::vector<ir::ValueId> remade;   // sizes and free values to be computed again, in order of their making
  // Sizes to be read off an input: value -> (input, dimension).
  std::map<ir::ValueId, std::pair<ir::ValueId, int>> read_off;
};

// For `cuts` (ascending operator positions) the interfaces of cuts.size() + 1 stages.
std::vector<StageInterface> stage_interfaces(const ir::Graph& graph, const Flow& flow, const std::vector<int>& cuts);

// The tensors of the model that stage `stage` reads: parameters, buffers, constants by the value that they are.
std::set<ir::ValueId> stage_tensors(const ir::Graph& graph, const Flow& flow, const StageInterface& interface,
                                    int begin, int end, bool last);

// The operators [begin, end) as a graph; the last stage returns the model's outputs. `tensors` are the inputs that it
// declares beside the user's, in the model's order.
ir::Graph stage_graph(const ir::Graph& graph, const Flow& flow, const StageInterface& interface,
                      const std::set<ir::ValueId>& tensors, int begin, int end, bool last);

}  // namespace ravnest::graph
