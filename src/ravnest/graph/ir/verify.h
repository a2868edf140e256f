// What makes a Graph well formed, and how to walk the values that its arguments name.
#pragma once

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

// Every value is defined once, by an input or an operator, before it is used; every reference is in range; the specs
// describe as many leaves as there are inputs and outputs. kCorrupt with the first thing that is wrong.
Status check(const Graph& graph);

// Also that every parameter, buffer and constant of both graphs has its tensor, of the dtype and sizes that the
// graph says, and that every payload lies within its storage.
Status check(const Model& model);

// Calls `visit(Ref&)` for each value that the argument names, in order; `visit` may change a mutable argument's.
template <class AnyArgument, class Visit>
void for_each_ref(AnyArgument& argument, Visit&& visit) {
  if (auto* single = std::get_if<Ref>(&argument)) {
    visit(*single);
  } else if (auto* refs = std::get_if<std::vector<Ref>>(&argument)) {
    for (auto& ref : *refs) visit(ref);
  } else if (auto* optionals = std::get_if<std::vector<std::optional<Ref>>>(&argument)) {
    for (auto& ref : *optionals)
      if (ref) visit(*ref);
  } else if (auto* sizes = std::get_if<std::vector<IntOrRef>>(&argument)) {
    for (auto& size : *sizes)
      if (auto* ref = std::get_if<Ref>(&size)) visit(*ref);
  }
}

}  // namespace ravnest::ir
