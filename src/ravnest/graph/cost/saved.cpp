#include "ravnest/graph/cost/saved.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ravnest/graph/operators/operator_sets.h"

namespace ravnest::graph {
namespace {

std::int64_t item_bytes(const Shape& shape) { return static_cast<std::int64_t>(item_size(shape.dtype)); }

std::int64_t rows_of(const Shape& shape) {
  return shape.elements() / std::max<std::int64_t>(shape.sizes.empty() ? 1 : shape.sizes.back(), 1);
}

class Rules {
 public:
  Rules(const ShapedOperator& op, const std::vector<bool>& needs_gradient) : op_(op), needs_(needs_gradient) {}

  Saved apply() {
    using Rule = void (Rules::*)();
    static const std::unordered_map<std::string_view, Rule> kRules = {
        {"linear", &Rules::linear},
        {"matmul", &Rules::matmul},
        {"dropout", &Rules::dropout},
        {"batch_norm", &Rules::batch_norm},
        {"instance_norm", &Rules::instance_norm},
        {"layer_norm", &Rules::layer_norm},
        {"rms_norm", &Rules::layer_norm},
        {"group_norm", &Rules::group_norm},
        {"max_pool1d", &Rules::max_pool},
        {"max_pool2d", &Rules::max_pool},
        {"max_pool3d", &Rules::max_pool},
        {"adaptive_avg_pool1d", &Rules::adaptive_pool},
        {"adaptive_avg_pool2d", &Rules::adaptive_pool},
        {"adaptive_avg_pool3d", &Rules::adaptive_pool},
        {"div", &Rules::div},
        {"max", &Rules::extremum},
        {"min", &Rules::extremum},
        {"cross_entropy_loss", &Rules::cross_entropy},
        {"scaled_dot_product_attention", &Rules::attention},
        {"lstm", &Rules::lstm},
        {"gru", &Rules::steps},
        {"rnn_tanh", &Rules::steps},
        {"rnn_relu", &Rules::steps},
    };
    const auto rule = kRules.find(op_.name());
    if (is_convolution()) convolution_workspace();
    if (rule != kRules.end())
      (this->*rule->second)();
    else if (!product_operands(op_).empty())
      product();
    else
      by_kind();
    return std::move(saved_);
  }

 private:
  bool needs(ir::ValueId value) const { return value >= 0 && needs_[value]; }
  void keep(ir::ValueId value) {
    if (value < 0) return;
    if (is_cast(value))
      saved_.hidden_bytes += op_.shape(value).elements() * item_bytes(op_.output());
    else
      saved_.values.push_back(value);
  }
  // Autocast hands the operator a copy of lower precision, which is then what is kept.
  bool is_cast(ir::ValueId value) const {
    const DType made = op_.output().dtype;
    return op_.in_graph().autocast >= 0 && op_.shape(value).dtype == DType::kFloat32 &&
           (made == DType::kBFloat16 || made == DType::kFloat16);
  }
  void keep_argument(std::string_view name) { keep(op_.value(name)); }

  // As the operator would see it with these sizes; where that takes a copy, the copy is kept.
  void keep_as(ir::ValueId value, const std::vector<std::int64_t>& sizes) {
    if (value < 0) return;
    if (viewable(op_.shape(value), sizes))
      keep(value);
    else
      saved_.hidden_bytes += op_.shape(value).bytes();
  }

  // Each operand is kept for the gradients of the others.
  void product() {
    const std::vector<ir::ValueId> operands = product_operands(op_);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (std::size_t k = 0; k < operands.size(); ++k) {
        if (i == k || !needs(operands[k])) continue;
        keep(operands[i]);
        break;
      }
      if (needs(operands[i]) && operands[i] >= 0 && op_.name() == "mul" &&
          op_.shape(operands[i]).elements() < op_.output().elements())
        saved_.backward_workspace += op_.output().bytes();  // before it is summed to the operand's size
    }
    if (op_.in_place() && operands.size() == 2 && needs(operands[1]))
      saved_.hidden_bytes += op_.output().bytes();  // what the first operand was before
  }

  bool is_convolution() const { return op_.name().starts_with("conv") || op_.name() == "_convolution"; }

  // For the weights' gradient oneDNN copies the input and the result's gradient with their channels in blocks of eight;
  // an image of three channels it takes as it is, and so everything for a window of one element. Windows wider than 14
  // it leaves to a matrix product, with four times the weights and the unfolded image for each thread.
  void convolution_workspace() {
    const Shape* weight = op_.input("weight");
    const Shape& input = op_.shape(op_.first());
    const Shape& output = op_.output();
    if (weight == nullptr || weight->sizes.size() < 3 || input.sizes.size() < 3 || output.sizes.size() < 3) return;
    const std::int64_t widest = *std::max_element(weight->sizes.begin() + 2, weight->sizes.end());
    if (widest > 14) {
      const std::int64_t columns = weight->bytes() / weight->sizes[0] * output.elements() /
                                   std::max<std::int64_t>(1, output.sizes[0] * output.sizes[1]);
      saved_.backward_workspace = at::get_num_threads() * (4 * weight->bytes() + columns);
    } else if (widest > 1) {
      const auto blocked = [](const Shape& shape) {
        return shape.bytes() / std::max<std::int64_t>(1, shape.sizes[1]) * ((shape.sizes[1] + 7) / 8 * 8);
      };
      saved_.backward_workspace = blocked(output) + (input.sizes[1] > 3 ? blocked(input) : 0);
    }
  }

  void linear() {
    const Shape* input = op_.input("input");
    if (needs(op_.value("input"))) keep_argument("weight");
    if (needs(op_.value("weight")) && input != nullptr && !input->sizes.empty())
      keep_as(op_.value("input"), {rows_of(*input), input->sizes.back()});
  }

  // Runs as one product of matrices, or of as many as the leading dimensions count; an operand that is the same for all
  // of them is copied for each.
  void matmul() {
    const ir::ValueId self = op_.value("self");
    const ir::ValueId other = op_.value("other");
    if (self < 0 || other < 0) return;
    const std::size_t dimensions = std::max(op_.shape(self).sizes.size(), op_.shape(other).sizes.size());
    for (const auto& [value, counterpart] : {std::pair(self, other), std::pair(other, self)}) {
      if (!needs(counterpart)) continue;
      const Shape& shape = op_.shape(value);
      const std::size_t rank = shape.sizes.size();
      const bool folded = op_.shape(counterpart).sizes.size() <= 2;
      if (dimensions <= 2 || rank <= 2) {
        keep(value);
      } else if (folded) {
        keep_as(value, {rows_of(shape), shape.sizes.back()});
      } else {
        const std::int64_t batch =
            op_.output().elements() /
            std::max<std::int64_t>(1, op_.output().sizes[rank - 1] * op_.output().sizes[rank - 2]);
        const std::int64_t matrix = shape.sizes[rank - 1] * shape.sizes[rank - 2];
        if (batch * matrix != shape.elements())
          saved_.hidden_bytes += batch * matrix * item_bytes(shape);
        else
          keep_as(value, {batch, shape.sizes[rank - 2], shape.sizes[rank - 1]});
      }
    }
  }

  void dropout() {
    if (op_.flag("train", true) && op_.number("p", 0.5) > 0) saved_.hidden_bytes += op_.output().bytes();
  }

  std::int64_t channels() const {
    const Shape& input = op_.shape(op_.first());
    return input.sizes.size() > 1 ? input.sizes[1] : 1;
  }

  void batch_norm() {
    keep(op_.first());
    if (op_.flag("training", true)) saved_.hidden_bytes += 2 * channels() * item_bytes(op_.output());
  }

  void instance_norm() {
    keep(op_.first());
    const std::int64_t samples = op_.output().sizes.empty() ? 1 : op_.output().sizes.front();
    saved_.hidden_bytes += 2 * samples * channels() * item_bytes(op_.output());
  }

  void layer_norm() {
    keep(op_.first());
    std::int64_t normalised = 1;
    const Shape& input = op_.shape(op_.first());
    if (const Shape* weight = op_.input("weight"))
      normalised = weight->elements();
    else if (!input.sizes.empty())
      normalised = input.sizes.back();
    const std::int64_t statistics = op_.name() == "rms_norm" ? 1 : 2;
    saved_.hidden_bytes += statistics * input.elements() / std::max<std::int64_t>(1, normalised) * item_bytes(input);
  }

  void group_norm() {
    const Shape& input = op_.shape(op_.first());
    if (input.contiguous())
      keep(op_.first());
    else
      saved_.hidden_bytes += input.bytes();
    const std::int64_t samples = input.sizes.empty() ? 1 : input.sizes.front();
    saved_.hidden_bytes += 2 * samples * static_cast<std::int64_t>(op_.number("num_groups", 1)) * item_bytes(input);
  }

  void max_pool() {
    keep(op_.first());
    saved_.hidden_bytes += 8 * op_.output().elements();  // indices
  }

  void adaptive_pool() {
    const Shape& output = op_.output();
    const bool is_mean = output.sizes.size() > 2 && output.elements() == output.sizes[0] * output.sizes[1];
    if (!is_mean) keep(op_.first());
  }

  void div() {
    keep_argument("other");
    if (needs(op_.value("other"))) keep_argument("self");
  }

  // Along a dimension: where it was found. Over all, or of two tensors: what it was found among.
  void extremum() {
    const std::vector<ir::ValueId> outputs = op_.outputs();
    if (outputs.size() > 1) return keep(outputs[1]);
    for (const ir::ValueId input : op_.inputs()) keep(input);
  }

  void cross_entropy() {
    keep_argument("target");
    saved_.hidden_bytes += op_.shape(op_.first()).bytes();
  }

  void attention() {
    const ir::ValueId query = op_.value("query");
    const ir::ValueId key = op_.value("key");
    const ir::ValueId value = op_.value("value");
    if (query < 0 || key < 0 || value < 0 || op_.shape(key).sizes.size() < 3) return;
    const Shape& shape = op_.shape(query);
    const ir::ValueId mask = op_.value("attn_mask");
    if (op_.number("dropout_p", 0) == 0 && !needs(mask)) {
      for (const ir::ValueId each : {query, key, value, mask}) keep(each);
      for (const ir::ValueId output : op_.outputs()) keep(output);
      saved_.hidden_bytes += 4 * rows_of(shape);
      return;
    }
    const std::size_t rank = shape.sizes.size();
    const Shape& keys = op_.shape(key);
    const std::int64_t weights = rows_of(shape) * keys.sizes[keys.sizes.size() - 2] * item_bytes(shape);
    const Shape& values = op_.shape(value);
    const std::int64_t matrices = rows_of(shape) / std::max<std::int64_t>(1, shape.sizes[rank - 2]);
    saved_.hidden_bytes += shape.bytes() + keys.bytes() + 3 * weights;  // softmax, mask, what the values meet
    keep_as(value, {matrices, values.sizes[rank - 2], values.sizes[rank - 1]});
    saved_.backward_workspace = 2 * weights;
  }

  struct Recurrent {
    std::int64_t rows = 0;  // steps times sequences
    std::int64_t batch = 1;
    std::int64_t layers = 1;
    std::int64_t directions = 1;
    std::int64_t hidden = 1;
    std::int64_t input = 1;
  };

  Recurrent recurrent() const {
    Recurrent sizes;
    const Shape& input = op_.shape(op_.value("input"));
    sizes.rows = rows_of(input);
    sizes.input = input.sizes.empty() ? 1 : input.sizes.back();
    const std::size_t batch_dimension = op_.flag("batch_first", false) ? 0 : 1;
    if (input.sizes.size() == 3) sizes.batch = input.sizes[batch_dimension];
    sizes.layers = static_cast<std::int64_t>(op_.number("num_layers", 1));
    sizes.directions = op_.flag("bidirectional", false) ? 2 : 1;
    const Shape& output = op_.output();
    sizes.hidden = (output.sizes.empty() ? 1 : output.sizes.back()) / sizes.directions;
    return sizes;
  }

  // What comes between two layers: the dropout's mask and its result.
  std::int64_t between_layers(const Recurrent& sizes) const {
    const bool dropped = op_.number("dropout", 0) > 0 && op_.flag("train", true);
    return (sizes.layers - 1) * sizes.rows * sizes.directions * sizes.hidden * (dropped ? 2 : 0);
  }

  // oneDNN's workspace of a layer, in pages: gates, states, cells, the differences of all three, hidden states. Its
  // backward holds weights in another order and the gradients of the gates beside it; only one layer's at a time.
  void lstm() {
    keep_argument("input");
    for (const ir::ValueId state : op_.values("hx")) keep(state);
    keep(op_.outputs().front());
    const Recurrent sizes = recurrent();
    const std::int64_t item = item_bytes(op_.output());
    const auto pages = [&](std::int64_t elements) { return (elements * item + 4095) / 4096 * 4096; };
    const std::int64_t steps = sizes.rows / std::max<std::int64_t>(1, sizes.batch);
    std::int64_t bytes = between_layers(sizes) * item;
    for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
      const std::int64_t input = layer == 0 ? sizes.input : sizes.hidden * sizes.directions;
      const std::int64_t states = 2 * (steps + 1) * sizes.batch * std::max(input, sizes.hidden);
      const std::int64_t hidden = sizes.rows * sizes.hidden;
      const bool visible = layer + 1 == sizes.layers && sizes.directions == 1;
      const std::int64_t results = (visible ? 0 : hidden) + 2 * sizes.batch * sizes.hidden;
      bytes += sizes.directions *
               (pages(4 * hidden) + 2 * pages(states) + pages(3 * states) + pages(hidden) + results * item);
    }
    saved_.hidden_bytes += bytes;
    std::int64_t weights = 0;
    for (const ir::ValueId weight : op_.values("params")) weights += op_.shape(weight).bytes();
    const std::int64_t of_a_layer = weights / std::max<std::int64_t>(1, sizes.layers * sizes.directions);
    saved_.backward_workspace =
        std::max<std::int64_t>(0, of_a_layer * 5 / 4 + 6 * sizes.rows * sizes.hidden * item - (weights - of_a_layer));
  }

  // Step by step through plain operators: the states, for a GRU also its gates and what they multiply.
  void steps() {
    keep_argument("input");
    for (const ir::ValueId state : op_.values("hx")) keep(state);
    const Recurrent sizes = recurrent();
    const std::int64_t cells = sizes.directions * sizes.rows * sizes.hidden;
    const std::int64_t first = sizes.directions * sizes.batch * sizes.hidden;
    const std::int64_t kept = op_.name() == "gru" ? 7 * cells : cells + first;
    const std::int64_t elements = sizes.layers * kept + (sizes.layers - 1) * cells + between_layers(sizes);
    saved_.hidden_bytes += elements * item_bytes(op_.output());
  }

  void by_kind() {
    static const std::unordered_set<std::string_view> kNothing = {"add",
                                                                  "sub",
                                                                  "rsub",
                                                                  "neg",
                                                                  "sum",
                                                                  "mean",
                                                                  "cumsum",
                                                                  "bernoulli",
                                                                  "nan_to_num",
                                                                  "upsample_nearest2d",
                                                                  "upsample_bilinear2d",
                                                                  "addcdiv",
                                                                  "lerp",
                                                                  "nansum",
                                                                  "logcumsumexp"};
    static const std::unordered_set<std::string_view> kResult = {
        "relu", "sigmoid", "tanh", "softmax", "log_softmax", "exp", "sqrt", "rsqrt", "reciprocal", "expm1", "tan"};
    static const std::unordered_set<std::string_view> kInputAndResult = {
        "norm", "linalg_vector_norm", "std", "prod", "logsumexp", "amax", "amin", "cumprod", "elu"};
    static const std::unordered_set<std::string_view> kResultInPlace = {"leaky_relu", "hardtanh", "elu", "threshold"};
    if (kNothing.contains(op_.name())) return;
    if (kResult.contains(op_.name()) || (op_.in_place() && kResultInPlace.contains(op_.name())))
      return keep(op_.outputs().front());
    if (moves_data_only(op_.name())) return look_up();
    for (const ir::ValueId input : op_.inputs()) keep(input);
    if (op_.name() == "embedding") saved_.values = {op_.value("indices")};
    if (kInputAndResult.contains(op_.name())) keep(op_.outputs().front());
    if (op_.in_place()) saved_.hidden_bytes += op_.output().bytes();  // what its input was before
  }

  // Indices and masks say where the gradient goes.
  void look_up() {
    for (const char* name : {"index", "indices", "mask", "condition"})
      for (const ir::ValueId value : op_.values(name)) keep(value);
  }

  const ShapedOperator& op_;
  const std::vector<bool>& needs_;
  Saved saved_;
};

}  // namespace

Saved saved_by(const ShapedOperator& op, const std::vector<bool>& needs_gradient) {
  const std::vector<ir::ValueId> outputs = op.outputs();
  const bool recorded =
      std::any_of(outputs.begin(), outputs.end(), [&](ir::ValueId value) { return needs_gradient[value]; });
  return recorded ? Rules(op, needs_gradient).apply() : Saved();
}

}  // namespace ravnest::graph
