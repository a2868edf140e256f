#include "ravnest/graph/run/input_check.h"

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "ravnest/base/text.h"
#include "ravnest/graph/ir/expression.h"
#include "ravnest/graph/operators/tensors.h"

namespace ravnest::graph {
namespace {

// In place of a symbol's number.
constexpr int kFixed = -1;
constexpr int kUnknown = -2;
constexpr std::int64_t kUnbound = -1;

std::string shown(const ir::TensorMeta& meta) {
  std::string result(dtype_name(meta.dtype));
  result += "[";
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    const std::string symbol = ir::bare_symbol(meta.sizes[i]);
    result += (i > 0 ? ", " : "") +
              (meta.sizes[i].symbolic() ? (symbol.empty() ? "any" : symbol) : std::to_string(meta.sizes[i].hint));
  }
  return result + "]";
}

struct SizeRange {
  std::int64_t min = 0;
  std::int64_t max = kNoLimit;
};

SizeRange range_of(const ir::Graph& graph, const std::string& symbol) {
  SizeRange found;
  if (const auto range = graph.ranges.find(symbol); range != graph.ranges.end()) {
    // Export calls 0 and 1 special and so says "from 2"; the operators themselves do not mind a batch of one.
    found.min = range->second.min.value_or(0) <= 2 ? 0 : *range->second.min;
    found.max = range->second.max.value_or(found.max);
  }
  return found;
}

// What differs from one sample to another: of sequences, where there are integers (tokens) or samples by steps by
// features, and of images and volumes behind their channels. Of samples by numbers the numbers are features, mostly.
bool may_be_length(const ir::TensorMeta& meta, std::size_t dimension) {
  if (!is_floating(meta.dtype)) return true;
  return meta.sizes.size() == 3 ? dimension == 1 : meta.sizes.size() > 3 && dimension > 1;
}

// Whether an input's first dimension is free: then a fixed one of another input is not the batch's.
bool batch_is_open(const ir::Graph& graph) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const ir::Input& input) {
    if (input.kind != ir::InputKind::kUser) return false;
    const std::vector<ir::Size>& sizes = graph.values[input.value].tensor.sizes;
    return !sizes.empty() && sizes.front().symbolic();
  });
}

// What the size must be, where that is worth saying.
std::string limit_of(const ir::Graph& graph, const ir::TensorMeta& meta, std::size_t dimension) {
  const ir::Size& size = meta.sizes[dimension];
  if (!size.symbolic())
    return may_be_length(meta, dimension) || (dimension == 0 && !batch_is_open(graph)) ? text(size.hint) : "";
  const auto linear = linear_size(size);
  if (!linear) return "";
  const SizeRange range = range_of(graph, linear->symbol);
  return in_words(*linear, range.min, range.max);
}

bool equals(const ir::Argument& fixed, const c10::IValue& given) {
  if (std::holds_alternative<ir::None>(fixed)) return given.isNone();
  if (const auto* flag = std::get_if<bool>(&fixed)) return given.isBool() && given.toBool() == *flag;
  if (const auto* integer = std::get_if<std::int64_t>(&fixed)) return given.isInt() && given.toInt() == *integer;
  if (const auto* number = std::get_if<double>(&fixed)) return given.isDouble() && given.toDouble() == *number;
  if (const auto* string = std::get_if<std::string>(&fixed)) return given.isString() && given.toStringRef() == *string;
  return false;
}

}  // namespace

InputCheck::InputCheck(const ir::Graph& graph) {
  const auto number_of = [&](const std::string& symbol) {
    const auto found =
        std::find_if(symbols_.begin(), symbols_.end(), [&](const Bounds& bounds) { return bounds.name == symbol; });
    if (found != symbols_.end()) return static_cast<int>(found - symbols_.begin());
    const SizeRange range = range_of(graph, symbol);
    symbols_.push_back({symbol, range.min, range.max});
    return static_cast<int>(symbols_.size() - 1);
  };
  for (const ir::Input& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser && input.kind != ir::InputKind::kFixed) continue;
    Expected expected{&input, nullptr, at::kFloat, {}};
    if (input.kind == ir::InputKind::kUser) {
      expected.value = &graph.values[input.value];
      if (expected.value->kind == ir::ValueKind::kTensor) {
        expected.dtype = to_torch(expected.value->tensor.dtype);
        for (const ir::Size& size : expected.value->tensor.sizes) {
          auto linear = linear_size(size);
          const int symbol = linear ? number_of(linear->symbol) : size.symbolic() ? kUnknown : kFixed;
          expected.dimensions.push_back({size.hint, symbol, std::move(linear).value_or(LinearSize())});
        }
      }
    }
    expected_.push_back(std::move(expected));
  }
}

void InputCheck::check_tensor(const Expected& expected, const c10::IValue& given, bool any_floating_type,
                              std::span<std::int64_t> symbols) const {
  const std::string& name = expected.value->name;
  TORCH_CHECK(given.isTensor() && given.toTensor().defined(), "input \"", name, "\" must be a tensor ",
              shown(expected.value->tensor), ", not ", given.tagKind());
  const at::Tensor& tensor = given.toTensor();
  const bool is_of_type = tensor.scalar_type() == expected.dtype ||
                          (any_floating_type && tensor.is_floating_point() && c10::isFloatingType(expected.dtype));
  TORCH_CHECK(is_of_type && tensor.dim() == static_cast<std::int64_t>(expected.dimensions.size()), "input \"", name,
              "\" must be ", shown(expected.value->tensor), ", not ", tensor.scalar_type(), tensor.sizes());
  for (std::size_t i = 0; i < expected.dimensions.size(); ++i) {
    const Dimension& dimension = expected.dimensions[i];
    const std::int64_t size = tensor.size(static_cast<std::int64_t>(i));
    if (dimension.symbol == kUnknown) continue;
    if (dimension.symbol == kFixed) {
      TORCH_CHECK(size == dimension.size, "input \"", name, "\" must be ", shown(expected.value->tensor),
                  " (dimension ", i, " was captured as fixed), not ", tensor.sizes());
      continue;
    }
    const Bounds& bounds = symbols_[static_cast<std::size_t>(dimension.symbol)];
    const auto value = dimension.linear.symbol_at(size);
    TORCH_CHECK(value && *value >= bounds.min && *value <= bounds.max, "input \"", name, "\": dimension ", i, " is ",
                size, ", the captured graph takes ", in_words(dimension.linear, bounds.min, bounds.max));
    std::int64_t& known = symbols[static_cast<std::size_t>(dimension.symbol)];
    TORCH_CHECK(known == kUnbound || known == *value, "input \"", name, "\": dimension ", i, " is ", size,
                dimension.linear.at(0) == 0 && dimension.linear.factor == 1
                    ? text(", but the same size (", bounds.name, ") is ", known, " in another input")
                    : text(" and has to be ", dimension.linear.at(known), " beside the size ", known, " (", bounds.name,
                           ") of the inputs"));
    known = *value;
  }
}

void InputCheck::operator()(std::span<const c10::IValue> inputs, bool any_floating_type) const {
  TORCH_CHECK(inputs.size() == expected_.size(), "the graph takes ", expected_.size(), " inputs, ", inputs.size(),
              " were given");
  c10::SmallVector<std::int64_t, 8> symbols(symbols_.size(), kUnbound);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Expected& expected = expected_[i];
    if (expected.value == nullptr) {
      TORCH_CHECK(equals(expected.input->fixed, inputs[i]), "argument \"", expected.input->target,
                  "\" was captured with one fixed value and cannot take ", inputs[i],
                  "; capture the model again with the value that you need");
    } else if (expected.value->kind == ir::ValueKind::kTensor) {
      check_tensor(expected, inputs[i], any_floating_type, {symbols.data(), symbols.size()});
    } else {
      TORCH_CHECK(inputs[i].isInt() || inputs[i].isDouble() || inputs[i].isBool(), "input \"", expected.value->name,
                  "\" must be a number");
    }
  }
}

std::vector<std::string> input_limits(const ir::Graph& graph) {
  std::vector<std::string> limits;
  std::set<std::string> said;
  for (const ir::Input& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser || graph.values[input.value].kind != ir::ValueKind::kTensor) continue;
    const auto& [name, meta] = std::tie(graph.values[input.value].name, graph.values[input.value].tensor);
    for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
      const std::string limit = limit_of(graph, meta, i);
      if (limit.empty() || (meta.sizes[i].symbolic() && !said.insert(meta.sizes[i].expression).second)) continue;
      limits.push_back(i == 0 && meta.sizes[i].symbolic()
                           ? text("every batch must have ", limit, " samples in dimension 0 of \"", name, "\"")
                           : text("dimension ", i, " of \"", name, "\" must be ", limit));
    }
  }
  return limits;
}

}  // namespace ravnest::graph
