#include "ravnest/graph/frontend/capture/unify.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "ravnest/graph/frontend/capture/affine.h"

namespace ravnest::graph::script {
namespace {

class Unifier {
 public:
  Unifier(std::span<const Recording> recordings, std::span<const std::int64_t> batches, std::size_t input)
      : recordings_(recordings), batches_(batches), result_(recordings.front()) {
    std::size_t users = 0;
    for (const ir::Input& each : graph().inputs) {
      if (each.kind != ir::InputKind::kUser && each.kind != ir::InputKind::kFixed) continue;
      if (users++ == input) source_ = each.value;
    }
  }

  Result<Recording> unify() {
    if (Status status = check_alike(); !status.ok()) return status;
    for (std::size_t i = 0; i < graph().operators.size(); ++i) {
      ir::Operator& op = graph().operators[i];
      for (std::size_t j = 0; j < op.inputs.size(); ++j) {
        if (Status status = merge(i, j); !status.ok()) return status;
      }
    }
    graph().operators.insert(graph().operators.begin(), made_.begin(), made_.end());
    return std::move(result_);
  }

 private:
  ir::Graph& graph() { return result_.graph; }

  Status check_alike() const {
    const Recording& first = recordings_.front();
    for (const Recording& other : recordings_) {
      if (other.graph.values.size() != first.graph.values.size() || other.graph.out_spec != first.graph.out_spec ||
          other.graph.operators.size() != first.graph.operators.size() || other.graph.outputs != first.graph.outputs ||
          other.constants.size() != first.constants.size())
        return invalid("the model calls other operators at another batch size");
      for (std::size_t i = 0; i < first.graph.operators.size(); ++i) {
        const ir::Operator& a = first.graph.operators[i];
        const ir::Operator& b = other.graph.operators[i];
        if (a.target != b.target || a.outputs != b.outputs || a.inputs.size() != b.inputs.size())
          return invalid("the model calls ", a.target, " at one batch size, ", b.target, " at another");
      }
      for (std::size_t i = 0; i < first.constants.size(); ++i) {
        const at::Tensor& a = first.constants[i].second;
        const at::Tensor& b = other.constants[i].second;
        if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || !at::equal(a, b))
          return invalid("the model makes another constant at another batch size");
      }
    }
    return {};
  }

  Status merge(std::size_t op, std::size_t input) {
    ir::Argument& argument = graph().operators[op].inputs[input].value;
    std::vector<const ir::Argument*> all;
    for (const Recording& each : recordings_) all.push_back(&each.graph.operators[op].inputs[input].value);
    if (std::all_of(all.begin(), all.end(), [&](const ir::Argument* each) { return *each == argument; })) return {};
    const Status differs = invalid("argument ", graph().operators[op].inputs[input].name, " of ",
                                   graph().operators[op].target, " changes with the batch size in no simple way");
    if (std::holds_alternative<std::int64_t>(argument)) {
      const auto merged = number([&](std::size_t i) { return std::get_if<std::int64_t>(all[i]); });
      if (!merged) return differs;
      argument = std::get<ir::Ref>(*merged);
      return {};
    }
    const auto* sizes = std::get_if<std::vector<std::int64_t>>(&argument);
    if (sizes == nullptr) return differs;
    std::vector<ir::IntOrRef> merged;
    for (std::size_t k = 0; k < sizes->size(); ++k) {
      const auto each = number([&](std::size_t i) -> const std::int64_t* {
        const auto* list = std::get_if<std::vector<std::int64_t>>(all[i]);
        return list != nullptr && list->size() == sizes->size() ? &(*list)[k] : nullptr;
      });
      if (!each) return differs;
      merged.push_back(*each);
    }
    argument = std::move(merged);
    return {};
  }

  template <class Get>
  std::optional<ir::IntOrRef> number(Get&& get) {
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < recordings_.size(); ++i) {
      const std::int64_t* each = get(i);
      if (each == nullptr) return std::nullopt;
      numbers.push_back(*each);
    }
    const std::optional<Affine> line = fit(batches_, numbers);
    if (!line) return std::nullopt;
    if (line->constant()) return numbers.front();
    return value_of(*line);
  }

  ir::Ref value_of(const Affine& line) {
    const auto known = values_.find(line);
    if (known != values_.end()) return known->second;
    ir::Ref value = line == Affine{1, 0, 1}
                        ? make("torch.ops.aten.sym_size.int", {{"self", ir::Ref{source_}}, {"dim", std::int64_t{0}}})
                        : value_of({1, 0, 1});
    const auto apply = [&](const char* target, std::int64_t operand) {
      value = make(target, {{"a", value}, {"b", operand}});
    };
    if (line.factor != 1) apply("_operator.mul", line.factor);
    if (line.offset != 0) apply("_operator.add", line.offset);
    if (line.divisor != 1) apply("_operator.floordiv", line.divisor);
    values_[line] = value;
    return value;
  }

  ir::Ref make(const std::string& target, std::vector<ir::NamedArgument> inputs) {
    const ir::Ref result{static_cast<ir::ValueId>(graph().values.size())};
    ir::Value value;
    value.name = text("batch_size_", made_.size());
    value.kind = ir::ValueKind::kSymInt;
    graph().values.push_back(value);
    ir::Operator op;
    op.name = value.name;
    op.target = target;
    op.inputs = std::move(inputs);
    op.outputs = {result};
    made_.push_back(std::move(op));
    return result;
  }

  std::span<const Recording> recordings_;
  std::span<const std::int64_t> batches_;
  Recording result_;
  ir::ValueId source_ = -1;
  std::map<Affine, ir::Ref> values_;
  std::vector<ir::Operator> made_;
};

}  // namespace

Result<Recording> unify(std::span<const Recording> recordings, std::span<const std::int64_t> batches,
                        std::size_t input) {
  return Unifier(recordings, batches, input).unify();
}

}  // namespace ravnest::graph::script
