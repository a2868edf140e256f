#include "ravnest/graph/cost/flops.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "ravnest/graph/operators/operator_sets.h"

namespace ravnest::graph {
namespace {

using Formula = std::int64_t (*)(const ShapedOperator& op);

std::int64_t product_of(const std::vector<std::int64_t>& sizes, std::size_t from) {
  std::int64_t product = 1;
  for (std::size_t i = from; i < sizes.size(); ++i) product *= sizes[i];
  return product;
}

// Every element of the result is a sum over the last dimension of the first operand.
std::int64_t matrix_product(const ShapedOperator& op, std::string_view operand) {
  const Shape* first = op.input(operand);
  if (first == nullptr || first->sizes.empty()) return 0;
  return 2 * op.output().elements() * first->sizes.back();
}
std::int64_t linear(const ShapedOperator& op) { return matrix_product(op, "input"); }
std::int64_t matmul(const ShapedOperator& op) { return matrix_product(op, "self"); }
std::int64_t addmm(const ShapedOperator& op) { return matrix_product(op, "mat1"); }
std::int64_t baddbmm(const ShapedOperator& op) { return matrix_product(op, "batch1"); }
std::int64_t dot(const ShapedOperator& op) { return 2 * op.shape(op.first()).elements(); }

// weight is (out, in, other in) and the result has one element per row and out.
std::int64_t bilinear(const ShapedOperator& op) {
  const Shape* weight = op.input("weight");
  return weight == nullptr ? 0 : 2 * op.output().elements() * product_of(weight->sizes, 1);
}

// Forward, each element of the result takes the window over the group's input channels; transposed, each element of the
// input gives to the window over the group's output channels. Either way that is the weight less its first dimension.
std::int64_t convolution(const ShapedOperator& op) {
  const Shape* weight = op.input("weight");
  if (weight == nullptr) return 0;
  const bool transposed = op.name().starts_with("conv_transpose") || op.flag("transposed", false);
  const std::int64_t elements = (transposed ? op.shape(op.first()) : op.output()).elements();
  return 2 * elements * product_of(weight->sizes, 1);
}

std::int64_t attention(const ShapedOperator& op) {
  const Shape* query = op.input("query");
  const Shape* key = op.input("key");
  const Shape* value = op.input("value");
  if (query == nullptr || key == nullptr || value == nullptr || key->sizes.size() < 2) return 0;
  const std::int64_t rows = query->elements() / std::max<std::int64_t>(query->sizes.back(), 1);
  const std::int64_t keys = key->sizes[key->sizes.size() - 2];
  return 2 * rows * keys * (query->sizes.back() + value->sizes.back());
}

// Every weight matrix multiplies each step of each sequence once.
std::int64_t recurrent(const ShapedOperator& op) {
  const Shape* input = op.input("input");
  if (input == nullptr || input->sizes.empty()) return 0;
  const std::int64_t steps = input->elements() / std::max<std::int64_t>(input->sizes.back(), 1);
  std::int64_t weights = 0;
  for (const ir::ValueId value : op.values("params")) {
    if (op.shape(value).sizes.size() == 2) weights += op.shape(value).elements();
  }
  return 2 * steps * weights;
}

// One operand's labels; what "..." stands for is labelled by its distance from the end, below the letters.
std::vector<int> labels_of(std::string_view term, std::size_t dimensions) {
  std::vector<int> labels;
  std::string letters(term);
  std::erase(letters, ' ');
  const std::size_t dots = letters.find("...");
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (i != dots) {
      labels.push_back(static_cast<unsigned char>(letters[i]));
      continue;
    }
    const std::size_t named = letters.size() - 3;
    for (std::size_t rest = dimensions > named ? dimensions - named : 0; rest > 0; --rest)
      labels.push_back(-static_cast<int>(rest));
    i += 2;
  }
  return labels;
}

// Operands are contracted from left to right, as torch does without an optimiser of paths: each step is a product over
// all labels of the two.
std::int64_t einsum(const ShapedOperator& op) {
  const std::string_view equation = op.text("equation");
  const std::size_t arrow = equation.find("->");
  std::string_view terms = equation.substr(0, arrow);
  std::vector<std::map<int, std::int64_t>> operands;
  for (const ir::ValueId value : op.values("tensors")) {
    const std::size_t comma = terms.find(',');
    const std::vector<std::int64_t>& sizes = op.shape(value).sizes;
    const std::vector<int> labels = labels_of(terms.substr(0, comma), sizes.size());
    std::map<int, std::int64_t>& operand = operands.emplace_back();
    for (std::size_t i = 0; i < labels.size() && i < sizes.size(); ++i)
      operand[labels[i]] = std::max(operand[labels[i]], sizes[i]);
    terms = comma == std::string_view::npos ? std::string_view() : terms.substr(comma + 1);
  }
  if (operands.size() < 2) return op.output().elements();
  std::int64_t total = 0;
  std::map<int, std::int64_t> left = operands.front();
  for (std::size_t i = 1; i < operands.size(); ++i) {
    for (const auto& [label, size] : operands[i]) left[label] = std::max(left[label], size);
    std::int64_t step = 2;
    for (const auto& [label, size] : left) step *= size;
    total += step;
    std::set<int> wanted;  // behind this step
    for (std::size_t k = i + 1; k < operands.size(); ++k)
      for (const auto& [label, size] : operands[k]) wanted.insert(label);
    if (arrow == std::string_view::npos) continue;
    for (const int label : labels_of(equation.substr(arrow + 2), op.output().sizes.size())) wanted.insert(label);
    std::erase_if(left, [&](const auto& entry) { return !wanted.contains(entry.first); });
  }
  return total;
}

std::int64_t per_element(const ShapedOperator& op, std::int64_t count) {
  const ir::ValueId first = op.first();
  return count * (first < 0 ? op.output() : op.shape(first)).elements();
}
std::int64_t five_per_input(const ShapedOperator& op) { return per_element(op, 5); }
std::int64_t one_per_input(const ShapedOperator& op) { return per_element(op, 1); }
std::int64_t two_per_output(const ShapedOperator& op) { return 2 * op.output().elements(); }
std::int64_t nothing(const ShapedOperator&) { return 0; }

// The window of a pool with overlapping windows; adaptive and global pools read each input once.
std::int64_t pool(const ShapedOperator& op) {
  for (const ir::NamedArgument& argument : op.in_graph().inputs) {
    if (argument.name != "kernel_size") continue;
    const auto* window = std::get_if<std::vector<std::int64_t>>(&argument.value);
    if (window == nullptr || window->empty()) break;
    std::int64_t elements = product_of(*window, 0);
    if (window->size() == 1 && op.name().ends_with("2d")) elements *= window->front();
    if (window->size() == 1 && op.name().ends_with("3d")) elements *= window->front() * window->front();
    return op.output().elements() * elements;
  }
  return one_per_input(op);
}

const std::unordered_map<std::string_view, Formula>& formulas() {
  static const std::unordered_map<std::string_view, Formula> kFormulas = {
      {"linear", linear},
      {"mm", matmul},
      {"bmm", matmul},
      {"mv", matmul},
      {"matmul", matmul},
      {"dot", dot},
      {"vdot", dot},
      {"inner", matmul},
      {"addmm", addmm},
      {"addbmm", baddbmm},
      {"baddbmm", baddbmm},
      {"einsum", einsum},
      {"bilinear", bilinear},
      {"conv1d", convolution},
      {"conv2d", convolution},
      {"conv3d", convolution},
      {"conv_transpose1d", convolution},
      {"conv_transpose2d", convolution},
      {"conv_transpose3d", convolution},
      {"convolution", convolution},
      {"_convolution", convolution},
      {"scaled_dot_product_attention", attention},
      {"lstm", recurrent},
      {"gru", recurrent},
      {"rnn_tanh", recurrent},
      {"rnn_relu", recurrent},
      {"batch_norm", five_per_input},
      {"layer_norm", five_per_input},
      {"group_norm", five_per_input},
      {"instance_norm", five_per_input},
      {"rms_norm", five_per_input},
      {"softmax", five_per_input},
      {"log_softmax", five_per_input},
      {"cross_entropy_loss", five_per_input},
      {"max_pool1d", pool},
      {"max_pool2d", pool},
      {"max_pool3d", pool},
      {"max_pool2d_with_indices", pool},
      {"avg_pool1d", pool},
      {"avg_pool2d", pool},
      {"avg_pool3d", pool},
      {"adaptive_avg_pool1d", one_per_input},
      {"adaptive_avg_pool2d", one_per_input},
      {"adaptive_avg_pool3d", one_per_input},
      {"dropout", two_per_output},
      {"embedding", nothing},
      {"embedding_bag", nothing},
      {"sum", one_per_input},
      {"mean", one_per_input},
      {"max", one_per_input},
      {"min", one_per_input},
      {"amax", one_per_input},
      {"amin", one_per_input},
      {"argmax", one_per_input},
      {"var", five_per_input},
      {"std", five_per_input},
      {"linalg_vector_norm", two_per_output},
  };
  return kFormulas;
}

}  // namespace

std::int64_t forward_flops(const ShapedOperator& op) {
  if (!op.in_graph().target.starts_with("torch.ops.") || moves_data_only(op.name())) return 0;
  const auto found = formulas().find(op.name());
  return found == formulas().end() ? op.output().elements() : found->second(op);
}

std::int64_t backward_flops(const ShapedOperator& op, const std::vector<bool>& needs_gradient) {
  const std::int64_t forward = forward_flops(op);
  const auto needs = [&](ir::ValueId value) { return value >= 0 && needs_gradient[value]; };
  const std::vector<ir::ValueId> inputs = op.inputs();
  if (std::none_of(inputs.begin(), inputs.end(), needs)) return 0;
  if (op.name() == "scaled_dot_product_attention") return op.number("dropout_p", 0) > 0 ? 2 * forward : forward / 2 * 5;
  const std::vector<ir::ValueId> operands = product_operands(op);
  if (operands.empty()) return forward;
  return forward * std::count_if(operands.begin(), operands.end(), needs);
}

}  // namespace ravnest::graph
