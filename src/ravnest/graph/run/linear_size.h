// Sizes of inputs that follow from a symbol: what they ask of a batch.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph {

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// factor * symbol + offset: how export writes a batch that the model takes in pairs, say.
struct LinearSize {
  std::string symbol;
  std::int64_t factor = 1;  // at least 1
  std::int64_t offset = 0;

  std::int64_t at(std::int64_t value) const { return factor * value + offset; }
  // The symbol's value where the size is so large; none where no value makes it so.
  std::optional<std::int64_t> symbol_at(std::int64_t size) const;
};

// None for a size that is fixed, or that is of no such form.
std::optional<LinearSize> linear_size(const ir::Size& size);

// "a multiple of 2 and at least 6", where the symbol is from `min` to `max`, or kNoLimit; empty where any size will do.
std::string in_words(const LinearSize& size, std::int64_t min, std::int64_t max);

}  // namespace ravnest::graph
