// Nodes that stand together in one autocast block, found again in a graph's flat list. Private to the encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

// Nodes `begin` to `end` (not included), all of them in `block` or in blocks inside of it; block -1: the whole graph.
struct BlockPart {
  std::int32_t block = -1;
  std::size_t begin = 0;
  std::size_t end = 0;
};

class Blocks {
 public:
  explicit Blocks(const Graph& graph);

  // The nodes of the part in order: `on_node` for each of its own, `on_part` for each part of a block inside of it.
  template <class OnNode, class OnPart>
  void for_each(const BlockPart& part, OnNode&& on_node, OnPart&& on_part) const {
    for (std::size_t i = part.begin; i < part.end;) {
      const std::int32_t inner = child(part.block, graph_.nodes[i].autocast);
      if (inner < 0) {
        on_node(graph_.nodes[i++]);
        continue;
      }
      const std::size_t begin = i;
      while (i < part.end && child(part.block, graph_.nodes[i].autocast) == inner) ++i;
      on_part(BlockPart{inner, begin, i});
    }
  }

  // In the order of their first use: what the part reads and does not make, and what it makes for others to read.
  std::vector<ValueId> operands(const BlockPart& part) const;
  std::vector<ValueId> results(const BlockPart& part) const;
  // What the part's own graph has to declare: all that its nodes read or make, but for what inner parts keep inside.
  std::vector<ValueId> values(const BlockPart& part) const;
  // Per value: made and read inside of one outermost block only.
  std::vector<bool> hidden() const;

 private:
  // The block directly inside of `around` that `block` is or lies in; -1 where it is `around` itself.
  std::int32_t child(std::int32_t around, std::int32_t block) const;

  const Graph& graph_;
  std::vector<std::size_t> made_at_;    // per value: node + 1; 0 for inputs
  std::vector<std::size_t> last_read_;  // per value: node + 1, nodes.size() + 1 for graph outputs; 0: never
};

}  // namespace ravnest::ir
