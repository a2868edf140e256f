// Cutting a model into stages.
//
// Stage k runs the operators between cut k and cut k+1, with the weights that they use. What a stage makes goes
// straight to the stages that read it, however far down; the model's own inputs likewise. The last stage returns what
// the model returns. Sizes, and masks made of sizes alone, are computed again where they are needed and never sent. The
// eval graph is cut where the same weights fall into the same stages.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/expression.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/operators/sizes.h"

namespace ravnest::graph {

// What a refusal begins with: 'cut before "relu_3": '.
std::string cut_text(const std::string& op);

struct Cut {
  int position = 0;        // before this operator of the training graph
  std::string refusal;     // why it is not allowed, cut_text first; empty where it is
  int tensors = 0;         // how many cross it
  std::int64_t bytes = 0;  // of those, at the given sizes
};

// All positions between two operators. `symbols` gives sizes other than the capture's; what it leaves out is as
// captured.
Result<std::vector<Cut>> possible_cuts(const ir::Model& model, const ir::SymbolValues& symbols = {});
// The same at sizes that are known already, one shape per value of the training graph.
Result<std::vector<Cut>> possible_cuts(const ir::Model& model, const Shapes& shapes);

// Those of the positions, ascending, that can be cut all at once: each where the ones before it leave it a place in the
// eval graph.
Result<std::vector<int>> allowed_together(const ir::Model& model, std::span<const int> positions);

// The stages of the model for cuts at these positions, ascending. The stages' storages are the model's.
// kInvalid, with the reason, for a cut that is not allowed.
Result<std::vector<ir::Model>> slice(const ir::Model& model, std::span<const int> positions);

}  // namespace ravnest::graph
