// Sizes that grow with the batch: (a * n + b) / c, exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph::script {

inline constexpr char kBatchSymbol[] = "s0";

struct Affine {
  std::int64_t factor = 0;
  std::int64_t offset = 0;
  std::int64_t divisor = 1;
  bool constant() const { return factor == 0; }
  std::int64_t at(std::int64_t batch) const { return (factor * batch + offset) / divisor; }
  auto operator<=>(const Affine&) const = default;
};

// The line through (batches[i], values[i]); nothing where they do not lie on one. One point gives a constant.
std::optional<Affine> fit(std::span<const std::int64_t> batches, std::span<const std::int64_t> values);

// As a size of a graph whose batch at capture is `batch`.
ir::Size to_size(const Affine& line, std::int64_t batch);

}  // namespace ravnest::graph::script
