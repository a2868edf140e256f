// Simplifications of a recorded graph that change nothing of what it computes.
#pragma once

#include <map>

#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph::script {

// Puts these numbers where the graph names the values.
void replace_numbers(ir::Graph& graph, const std::map<ir::ValueId, ir::Argument>& numbers);

// Takes out operators whose results nobody reads, then constants and values that are gone. Operators that write to
// memory or draw random numbers stay: others would see the difference. Throws Refusal for an operator that torch does
// not know.
void remove_dead_operators(ir::Graph& graph);

}  // namespace ravnest::graph::script
