#include "ravnest/graph/operators/sizes.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace ravnest::graph {
namespace {

// Expressions repeat thousands of times in a graph ("the batch size"), so their text is the key.
class Evaluator {
 public:
  explicit Evaluator(const ir::SymbolValues& symbols) : symbols_(symbols) {}

  std::int64_t operator()(const ir::Size& size) {
    if (!size.symbolic()) return size.hint;
    const auto [entry, is_new] = known_.try_emplace(size.expression, 0);
    if (is_new) {
      const Result<std::int64_t> value = ir::evaluate(size, symbols_);
      entry->second = value.ok() ? *value : size.hint;
    }
    return entry->second;
  }

 private:
  const ir::SymbolValues& symbols_;
  std::unordered_map<std::string_view, std::int64_t> known_;
};

}  // namespace

std::int64_t Shape::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

std::int64_t Shape::bytes() const { return elements() * static_cast<std::int64_t>(item_size(dtype)); }

bool Shape::contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

ir::SymbolValues symbol_values(const ir::Graph& graph, const ir::SymbolValues& symbols) {
  ir::SymbolValues values;
  std::unordered_map<std::string_view, bool> seen;
  for (const ir::Value& value : graph.values) {
    for (const ir::Size& size : value.tensor.sizes) {
      if (!size.symbolic() || !seen.try_emplace(size.expression, true).second) continue;
      const std::string symbol = ir::bare_symbol(size);
      if (!symbol.empty()) values.emplace(symbol, size.hint);
    }
  }
  for (const auto& [symbol, value] : symbols) values[symbol] = value;
  return values;
}

Shapes evaluate_shapes(const ir::Graph& graph, const ir::SymbolValues& symbols) {
  Evaluator evaluate(symbols);
  Shapes shapes(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const ir::TensorMeta& meta = graph.values[i].tensor;
    if (graph.values[i].kind != ir::ValueKind::kTensor) continue;
    shapes[i].dtype = meta.dtype;
    for (const ir::Size& size : meta.sizes) shapes[i].sizes.push_back(evaluate(size));
    for (const ir::Size& stride : meta.strides) shapes[i].strides.push_back(evaluate(stride));
    shapes[i].strides.resize(shapes[i].sizes.size(), 1);
  }
  return shapes;
}

// Walks both shapes from the innermost dimension: each run of dimensions that lie in memory as one must hold a whole
// number of the wanted dimensions.
bool viewable(const Shape& shape, const std::vector<std::int64_t>& sizes) {
  if (shape.elements() == 0) return true;
  std::int64_t wanted = static_cast<std::int64_t>(sizes.size()) - 1;
  std::int64_t run = 1;
  std::int64_t base_stride = shape.strides.empty() ? 1 : shape.strides.back();
  for (std::size_t i = shape.sizes.size(); i-- > 0;) {
    run *= shape.sizes[i];
    const bool run_ends = i == 0 || (shape.sizes[i - 1] != 1 && shape.strides[i - 1] != run * base_stride);
    if (!run_ends) continue;
    std::int64_t covered = 1;
    while (wanted >= 0 && (covered < run || sizes[wanted] == 1)) covered *= sizes[wanted--];
    if (covered != run) return false;
    if (i > 0) base_stride = shape.strides[i - 1];
    run = 1;
  }
  return true;
}

}  // namespace ravnest::graph
