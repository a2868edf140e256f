#include "ravnest/strategy/mixed_precision.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "ravnest/graph/operators/operators.h"

namespace ravnest::strategy {
namespace {

using at::Tensor;
using c10::IValue;

constexpr std::array<std::string_view, 3> kNames = {"float32", "bf16", "fp16"};
constexpr std::array<std::string_view, 2> kBatchNorms = {"torch.ops.aten.batch_norm.default",
                                                         "torch.ops.aten.instance_norm.default"};

std::optional<at::ScalarType> type_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat32: return std::nullopt;
    case Precision::kBf16: return at::kBFloat16;
    case Precision::kFp16: return at::kHalf;
  }
  return std::nullopt;
}

// The first operator that is told a floating type, if there is one.
const ir::Operator* operator_with_a_type(const ir::Graph& graph) {
  const auto found = std::ranges::find_if(graph.operators, [](const ir::Operator& op) {
    return std::ranges::any_of(op.inputs, [](const ir::NamedArgument& argument) {
      const auto* type = std::get_if<DType>(&argument.value);
      return type != nullptr && is_floating(*type);
    });
  });
  return found == graph.operators.end() ? nullptr : &*found;
}

}  // namespace

Result<Precision> parse_precision(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return invalid("there is no precision \"", name, "\"; there are float32, bf16 and fp16");
  return static_cast<Precision>(found - kNames.begin());
}

std::string_view precision_name(Precision precision) { return kNames[static_cast<std::size_t>(precision)]; }

std::set<std::string> kept_in_float32(const graph::Engine& engine) {
  std::set<std::string> kept;
  for (const graph::Mode mode : {graph::Mode::kTrain, graph::Mode::kEval}) {
    const ir::Graph& own = engine.graph(mode);
    std::map<ir::ValueId, std::string> parameters;
    for (const ir::Input& input : own.inputs) {
      if (input.kind == ir::InputKind::kParameter) parameters.emplace(input.value, input.target);
    }
    for (const ir::Operator& op : own.operators) {
      if (std::ranges::count(kBatchNorms, op.target) == 0) continue;
      for (const char* name : {"weight", "bias"}) {
        const ir::Argument* argument = graph::find_argument(op, name);
        const auto* ref = argument == nullptr ? nullptr : std::get_if<ir::Ref>(argument);
        const auto found = ref == nullptr ? parameters.end() : parameters.find(ref->value);
        if (found != parameters.end()) kept.insert(found->second);
      }
    }
  }
  return kept;
}

Status check_precision(const graph::Engine& engine, Precision precision, std::string_view model) {
  const std::string_view name = precision_name(precision);
  if (precision == Precision::kFloat32 || std::ranges::count(engine.checked_precisions(), name) > 0) return {};
  for (const graph::Mode mode : {graph::Mode::kTrain, graph::Mode::kEval}) {
    const ir::Operator* op = operator_with_a_type(engine.graph(mode));
    if (op == nullptr) continue;
    const std::string module = ir::module_path(*op);
    return invalid(model, " can not be trained in ", name, " as it is: its operator \"", op->name, "\" (", op->target,
                   ")", module.empty() ? "" : " of module " + module,
                   " names a floating type, and nobody has looked whether that is the one which the model takes in ",
                   name, ". Capture it with ravnest.capture(model, ..., precision=\"", name, "\"), which does");
  }
  return {};
}

MixedPrecision::MixedPrecision(const graph::Engine& engine, Precision precision)
    : type_(type_of(precision)), tensors_(engine.tensors().begin(), engine.tensors().end()) {
  if (!type_) return;
  const std::set<std::string> kept = kept_in_float32(engine);
  std::map<const void*, Tensor> copy_of;  // by weight: a tied one has several names
  std::set<const void*> stays;
  for (const auto& [name, weight] : engine.parameters()) {
    if (weight.scalar_type() != at::kFloat || kept.contains(name)) stays.insert(weight.unsafeGetTensorImpl());
  }
  for (const auto& [name, weight] : engine.parameters()) {
    const void* const own = weight.unsafeGetTensorImpl();
    if (stays.contains(own) || copy_of.contains(own)) continue;
    const Tensor copy = at::empty_like(weight, weight.options().dtype(*type_).requires_grad(false));
    copy_of.emplace(own, copy.set_requires_grad(weight.requires_grad()));
    weights_.push_back(weight);
    copies_.push_back(copy);
  }
  for (Tensor& tensor : tensors_) {
    if (const auto found = copy_of.find(tensor.unsafeGetTensorImpl()); found != copy_of.end()) tensor = found->second;
  }
  versions_.resize(weights_.size());
}

std::span<const Tensor> MixedPrecision::tensors() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const auto version = static_cast<std::uint32_t>(weights_[i]._version());
    is_fresh_ = std::exchange(versions_[i], version) == version && is_fresh_;
  }
  if (is_fresh_ || copies_.empty()) return tensors_;
  const at::NoGradGuard without_record;
  at::_foreach_copy_(copies_, weights_);
  is_fresh_ = true;
  return tensors_;
}

std::vector<IValue> MixedPrecision::inputs(std::vector<IValue> given) const {
  for (IValue& value : given) {
    if (type_ && value.isTensor() && value.toTensor().is_floating_point()) value = value.toTensor().to(*type_);
  }
  return given;
}

std::vector<IValue> MixedPrecision::outputs(std::vector<IValue> made) const {
  for (IValue& value : made) {
    if (type_ && value.isTensor() && value.toTensor().scalar_type() == *type_) value = value.toTensor().to(at::kFloat);
  }
  return made;
}

graph::RunOptions MixedPrecision::run_options() const {
  graph::RunOptions options;
  options.any_floating_type = type_.has_value();
  return options;
}

}  // namespace ravnest::strategy
