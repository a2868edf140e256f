#include "ravnest/graph/frontend/capture/sizes.h"

#include <algorithm>
#include <map>
#include <set>

#include "ravnest/graph/frontend/capture/affine.h"
#include "ravnest/graph/frontend/capture/tidy.h"

namespace ravnest::graph::script {
namespace {

class Settler {
 public:
  Settler(ir::Graph graph, const Runs& runs) : graph_(std::move(graph)), runs_(runs) {}

  Result<ir::Graph> settle() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) describe(static_cast<ir::ValueId>(i));
    compose_numbers();
    replace_numbers(graph_, constants_);
    remove_dead_operators(graph_);
    for (const ir::Value& value : graph_.values) {
      const auto found = unclear_.find(value.name);
      if (found != unclear_.end()) return invalid(found->second);
    }
    return std::move(graph_);
  }

 private:
  // The number that `get` finds in each run, as a line over the batch sizes.
  template <class Get>
  std::optional<Affine> line(ir::ValueId value, Get&& get) const {
    std::vector<std::int64_t> numbers;
    for (const std::vector<Seen>& seen : runs_.seen) numbers.push_back(get(seen[value]));
    return fit(runs_.batches, numbers);
  }

  ir::Size size(ir::ValueId value, const std::optional<Affine>& line) {
    if (line) return to_size(*line, runs_.batches.front());
    unclear(value, "does not grow evenly with the batch");
    return {};
  }

  void unclear(ir::ValueId value, const char* what) {
    const std::string& name = graph_.values[value].name;
    unclear_.emplace(name, text("the size of \"", name, "\" ", what));
  }

  void describe(ir::ValueId value) {
    const Seen& first = runs_.seen.front()[value];
    const bool alike = std::all_of(runs_.seen.begin(), runs_.seen.end(), [&](const std::vector<Seen>& run) {
      const Seen& seen = run[value];
      return seen.defined == first.defined && seen.sizes.size() == first.sizes.size() && seen.dtype == first.dtype;
    });
    if (!alike) return unclear(value, "is of another kind at another batch size");
    if (graph_.values[value].kind == ir::ValueKind::kTensor)
      describe_tensor(value, first);
    else
      describe_number(value, first);
  }

  void describe_tensor(ir::ValueId value, const Seen& first) {
    ir::TensorMeta& meta = graph_.values[value].tensor;
    meta.dtype = first.dtype;
    meta.device = first.device;
    meta.requires_grad = first.requires_grad;
    meta.sizes.clear();
    meta.strides.clear();
    for (std::size_t i = 0; i < first.sizes.size(); ++i) {
      meta.sizes.push_back(size(value, line(value, [i](const Seen& seen) { return seen.sizes[i]; })));
      meta.strides.push_back(size(value, line(value, [i](const Seen& seen) { return seen.strides[i]; })));
    }
    meta.storage_offset = size(value, line(value, [](const Seen& seen) { return seen.offset; }));
  }

  void describe_number(ir::ValueId value, const Seen& first) {
    ir::Value& described = graph_.values[value];
    const double number = first.number.value_or(0);
    described.hint = number;
    const bool constant = std::all_of(runs_.seen.begin(), runs_.seen.end(),
                                      [&](const std::vector<Seen>& seen) { return seen[value].number == number; });
    if (constant) {
      if (described.kind == ir::ValueKind::kSymBool)
        constants_[value] = number != 0;
      else if (described.kind == ir::ValueKind::kSymFloat)
        constants_[value] = number;
      else
        constants_[value] = static_cast<std::int64_t>(number);
    } else if (described.kind == ir::ValueKind::kSymInt) {
      const auto found = line(value, [](const Seen& seen) { return static_cast<std::int64_t>(*seen.number); });
      if (found) described.expression = to_size(*found, runs_.batches.front()).expression;
    }
  }

  // Expressions of numbers that are no line over the batch, out of those that they are computed from.
  void compose_numbers() {
    static const std::map<std::string, std::string> functions = {
        {"_operator.add", "Add"},           {"_operator.mul", "Mul"},
        {"_operator.floordiv", "FloorDiv"}, {"_operator.truediv", "IntTrueDiv"},
        {"torch.sym_float", "ToFloat"},     {"_operator.mod", "Mod"},
    };
    for (const ir::Operator& op : graph_.operators) {
      if (op.outputs.size() != 1 || !std::holds_alternative<ir::Ref>(op.outputs[0])) continue;
      const ir::ValueId value = std::get<ir::Ref>(op.outputs[0]).value;
      ir::Value& described = graph_.values[value];
      if (described.kind == ir::ValueKind::kTensor || !described.expression.empty() || constants_.contains(value))
        continue;
      const auto function = functions.find(op.target);
      std::vector<std::string> arguments;
      for (const ir::NamedArgument& input : op.inputs) arguments.push_back(expression(input.value));
      const bool known =
          std::none_of(arguments.begin(), arguments.end(), [](const auto& each) { return each.empty(); });
      if (function == functions.end() || !known)
        unclear(value, "cannot be written as an expression of the batch");
      else
        described.expression = text(function->second, "(", join(arguments), ")");
    }
  }

  std::string expression(const ir::Argument& argument) const {
    if (const auto* ref = std::get_if<ir::Ref>(&argument)) {
      const auto constant = constants_.find(ref->value);
      return constant != constants_.end() ? expression(constant->second) : graph_.values[ref->value].expression;
    }
    if (const auto* integer = std::get_if<std::int64_t>(&argument)) return text("Integer(", *integer, ")");
    return "";
  }

  ir::Graph graph_;
  const Runs& runs_;
  std::map<ir::ValueId, ir::Argument> constants_;
  std::map<std::string, std::string> unclear_;  // value's name -> why it has no size
};

}  // namespace

Result<ir::Graph> settle_sizes(const Recording& recording, const Runs& runs) {
  const bool dynamic = runs.batches.size() > 1;
  ir::SymbolRange range;
  if (dynamic) {
    const Result<ir::SymbolRange> guarded = guarded_range(recording, runs);
    if (!guarded.ok()) return guarded.status();
    range = *guarded;
  }
  Result<ir::Graph> graph = Settler(recording.graph, runs).settle();
  if (graph.ok() && dynamic) graph->ranges[kBatchSymbol] = range;
  return graph;
}

}  // namespace ravnest::graph::script
