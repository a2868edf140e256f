#include <torch/csrc/jit/runtime/operator.h>

#include <set>
#include <unordered_map>

#include "ravnest/graph/frontend/script/builtins.h"

namespace ravnest::graph::script {
namespace {

using Items = std::vector<Item>;

const std::string* size_operator_of(const std::string& kind) {
  static const std::unordered_map<std::string, std::string> table = {
      {"aten::add", "_operator.add"},
      {"aten::sub", "_operator.sub"},
      {"aten::mul", "_operator.mul"},
      {"aten::div", "_operator.truediv"},
      {"aten::floordiv", "_operator.floordiv"},
      {"aten::floor_divide", "_operator.floordiv"},
      {"aten::remainder", "_operator.mod"},
      {"aten::pow", "_operator.pow"},
      {"aten::neg", "_operator.neg"},
      {"aten::eq", "_operator.eq"},
      {"aten::ne", "_operator.ne"},
      {"aten::lt", "_operator.lt"},
      {"aten::le", "_operator.le"},
      {"aten::gt", "_operator.gt"},
      {"aten::ge", "_operator.ge"},
      {"aten::__and__", "_operator.and_"},
      {"aten::__or__", "_operator.or_"},
      {"aten::__not__", "torch.sym_not"},
      {"aten::sqrt", "torch.sym_sqrt"},
      {"aten::Int", "torch.sym_int"},
      {"aten::IntImplicit", "torch.sym_int"},
      {"aten::Float", "torch.sym_float"},
      {"aten::FloatImplicit", "torch.sym_float"},
      {"aten::ScalarImplicit", "_operator.pos"},
      {"prim::max", "torch.sym_max"},
      {"prim::min", "torch.sym_min"},
  };
  const auto found = table.find(kind);
  return found == table.end() ? nullptr : &found->second;
}

// What a node asks of a tensor beside its data: the same for all that may be passed.
bool is_about_kind(const std::string& kind) {
  static const std::set<std::string> kinds = {
      "prim::dtype",         "prim::device",
      "prim::layout",        "prim::is_cuda",
      "prim::is_cpu",        "prim::is_meta",
      "prim::requires_grad", "prim::type",
      "aten::dim",           "aten::is_floating_point",
      "aten::is_complex",    "aten::is_contiguous",
      "aten::stride",        "aten::storage_offset",
      "aten::get_device",    "prim::isinstance",
      "aten::format",        "prim::is_sparse",
      "prim::is_quantized",  "prim::is_mkldnn",
      "prim::ndim",          "aten::is_signed",
      "prim::itemsize",      "prim::index",
      "prim::is_nested",
  };
  return kinds.contains(kind);
}

// A traced graph's `size // 2`: the 2 is a tensor there.
std::optional<Item> as_number(const Item& item) {
  if (item.kind == ItemKind::kNumber) return item;
  if (item.kind != ItemKind::kTensor || item.id >= 0 || item.value.toTensor().dim() != 0) return std::nullopt;
  return number(item.value.toTensor().item());
}

}  // namespace

std::optional<Item> call_on_numbers(const torch::jit::Node& node, const Items& inputs, Recorder& recorder) {
  const std::string* known = size_operator_of(node.kind().toQualString());
  if (known == nullptr || inputs.empty()) return std::nullopt;
  std::string target = *known;
  Items numbers;
  bool computed = false;
  for (std::size_t i = 0; i < inputs.size() && i < 2; ++i) {
    const std::optional<Item> item = as_number(inputs[i]);
    if (!item || item->value.isComplexDouble()) return std::nullopt;
    computed = computed || item->id >= 0 || item->data;
    numbers.push_back(*item);
  }
  if (!computed) return std::nullopt;
  if (inputs.size() > 2) {  // add's alpha, div's rounding
    const Item& extra = inputs[2];
    if (target == "_operator.truediv" && extra.value.isString())
      target = "_operator.floordiv";
    else if (!extra.value.isInt() || extra.value.toInt() != 1)
      return std::nullopt;
  }
  // TorchScript's power of two whole numbers is a float, Python's is not.
  const bool real = target == "_operator.pow" && node.output()->type()->kind() == c10::TypeKind::FloatType;
  if (real) numbers.front() = recorder.compute("torch.sym_float", {numbers.front()});
  return recorder.compute(target, numbers);
}

Items call_on_example(const torch::jit::Node& node, Items& inputs, Recorder& recorder) {
  const std::string kind = node.kind().toQualString();
  const bool about_kind = is_about_kind(kind);
  if (node.maybeOperator() == nullptr || !node.blocks().empty())
    throw Refusal{unsupported("a graph has no such operation")};
  torch::jit::Stack stack;
  bool data = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for_each_leaf(inputs[i], [&](Item& leaf) {
      if (about_kind) return;
      if (leaf.kind == ItemKind::kTensor && leaf.id >= 0)
        throw Refusal{unsupported("TorchScript runs this on tensors, torch itself has no such operator")};
      data = data || leaf.data;
      if (!leaf.data) recorder.fix(leaf);
    });
    stack.push_back(to_ivalue(inputs[i], node.input(i)->type()));
  }
  node.getOperation()(stack);
  Items results;
  for (const c10::IValue& value : stack) {
    Item item = from_constant(value);
    for_each_leaf(item, [&](Item& leaf) {
      if (data && leaf.kind == ItemKind::kTensor)
        throw Refusal{unsupported("it makes a tensor of a number that was read out of another")};
      leaf.data = data;
    });
    results.push_back(std::move(item));
  }
  return results;
}

}  // namespace ravnest::graph::script
