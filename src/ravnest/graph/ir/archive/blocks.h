// Operators that stand together in one autocast block, found again in a graph's flat list. Private to the encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

// Operators `begin` to `end` (not included), all of them in `block` or in blocks inside of it; block -1: the whole
// graph.
struct BlockPart {
  std::int32_t block = -1;
  std::size_t begin = 0;
  std::size_t end = 0;
};

class Blocks {
 public:
  explicit Blocks(const Graph& graph);

  // The operators of the part in order: `on_operator` for each of its own, `on_part` for each part of a block inside of
  // it.
  template <class OnOperator, class OnPart>
  void for_each(const BlockPart& part, OnOperator&& on_operator, OnPart&& on_part) const {
    for (std::size_t i = part.begin; i < part.end;) {
      const std::int32_t inner = child(part.block, graph_.operators[i].autocast);
      if (inner < 0) {
        on_operator(graph_.operators[i++]);
        continue;
      }
      const std::size_t begin = i;
      while (i < part.end && child(part.block, graph_.operators[i].autocast) == inner) ++i;
      on_part(BlockPart{inner, begin, i});
    }
  }

  // In the order of their first use: what the part reads and does not make, and what it makes for others to read.
  std::vector<ValueId> operands(const BlockPart& part) const;
  std::vector<ValueId> results(const BlockPart& part) const;
  // What the part's own graph has to declare: all that its operators read or make, but for what inner parts keep
  // inside.
  std::vector<ValueId> values(const BlockPart& part) const;
  // Per value: made and read inside of one outermost block only.
  std::vector<bool> hidden() const;

 private:
  // The block directly inside of `around` that `block` is or lies in; -1 where it is `around` itself.
  std::int32_t child(std::int32_t around, std::int32_t block) const;

  const Graph& graph_;
  std::vector<std::size_t> made_at_;    // per value: operator + 1; 0 for inputs
  std::vector<std::size_t> last_read_;  // per value: operator + 1, operators.size() + 1 for graph outputs; 0: never
};

}  // namespace ravnest::ir
