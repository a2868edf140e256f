// Who makes and who reads each value of a graph, and where it may be cut.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph {

struct Flow {
  std::vector<int> defined_at;  // per value: operator position; -1 for an input
  std::vector<std::vector<int>>
      used_at;  // per value: operator positions, ascending; operators.size() for a graph output
  std::vector<const ir::Input*> inputs;  // per value: the input that it is, or nullptr
  std::vector<bool> anywhere;            // per value: computable in any stage from constants and sizes alone
  std::vector<bool> pure;                // per operator: writes nothing and draws no random numbers
  std::set<std::string> changed;         // tensors of the model that an operator changes in place, by name
  // Per position p, "the cut before operator p": why it is not allowed; empty where it is. A cut is refused inside the
  // life of memory that is written in place, from its making (or first use, for a buffer) to the last write through any
  // of its names, since the other side would not see the write.
  std::vector<std::string> refusals;
};

// kUnsupported for operators that this build of torch does not know. The graph must outlive the result.
// `changed_elsewhere` names tensors of the model that another graph over the same ones changes: a copy of those would
// go stale, so what is made of them is not free to be made anywhere.
Result<Flow> analyse_flow(const ir::Graph& graph, const std::set<std::string>& changed_elsewhere = {});

// Whether a value has to be sent over a cut that lies between its making and its reading: tensors that an operator made
// or the user gave. Sizes, and what needs nothing but sizes and constants, are made anew on the other side.
bool is_sent(const ir::Graph& graph, const Flow& flow, std::size_t value);

// The sum of `amounts` (per value) over the tensors that have to be sent over a cut, for all positions from 0 to
// operators.size(): those made, or given by the user, before it and read behind it.
std::vector<std::int64_t> crossing_sums(const ir::Graph& graph, const Flow& flow,
                                        const std::vector<std::int64_t>& amounts);

}  // namespace ravnest::graph
