#include "ravnest/graph/frontend/capture/affine.h"

#include <numeric>

#include "ravnest/base/text.h"
#include "ravnest/graph/ir/expression.h"

namespace ravnest::graph::script {

std::optional<Affine> fit(std::span<const std::int64_t> batches, std::span<const std::int64_t> values) {
  Affine line{0, values[0], 1};
  if (values.size() > 1) {
    const std::int64_t run = batches[1] - batches[0];
    const std::int64_t rise = values[1] - values[0];
    const std::int64_t shared = std::gcd(run, rise) * (run < 0 ? -1 : 1);
    line.factor = rise / shared;
    line.divisor = run / shared;
    line.offset = values[0] * line.divisor - line.factor * batches[0];
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (line.factor * batches[i] + line.offset != values[i] * line.divisor) return std::nullopt;
  }
  return line;
}

ir::Size to_size(const Affine& line, std::int64_t batch) {
  ir::Size size{line.at(batch), ""};
  if (line.constant()) return size;
  size.expression = ir::symbol_text(kBatchSymbol);
  if (line.factor != 1) size.expression = text("Mul(Integer(", line.factor, "), ", size.expression, ")");
  if (line.offset != 0) size.expression = text("Add(", size.expression, ", Integer(", line.offset, "))");
  if (line.divisor != 1) size.expression = text("FloorDiv(", size.expression, ", Integer(", line.divisor, "))");
  return size;
}

}  // namespace ravnest::graph::script
