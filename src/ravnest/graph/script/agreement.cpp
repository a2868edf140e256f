#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <map>

#include "ravnest/graph/random.h"
#include "ravnest/graph/script/capture.h"

namespace ravnest::graph::script {
namespace {

constexpr double kMostNoise = 1e-4;  // of the largest value

// By what it is of: "output 0", "the gradient of fc.weight", "the buffer bn.running_mean".
using Numbers = std::map<std::string, at::Tensor>;

// Weighs every element of every output differently: a plain sum has no gradient behind a softmax.
at::Tensor loss_of(const Leaves& outputs) {
  at::Tensor loss;
  for (const c10::IValue& output : outputs) {
    if (!output.isTensor() || !output.toTensor().defined() || !output.toTensor().requires_grad()) continue;
    at::Tensor value = output.toTensor();
    if (value.is_complex()) value = at::view_as_real(value).select(-1, 0);
    value = value.to(at::kDouble);
    const at::Tensor weights = at::linspace(-1, 1, value.numel(), value.options()).view(value.sizes());
    const at::Tensor sum = (value * weights).sum();
    loss = loss.defined() ? loss + sum : sum;
  }
  return loss;
}

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) || (a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
                          a.strides() == b.strides() && a.numel() > 0);
}

// `weights` as the pass used them; the gradient of a tied weight is the sum over its tensors.
Numbers numbers_of(const Leaves& outputs, const Weights& weights) {
  Numbers numbers;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const c10::IValue& output = outputs[i];
    const bool is_number = output.isInt() || output.isDouble() || output.isBool();
    at::Tensor value = output.isTensor() ? output.toTensor()
                       : is_number       ? at::scalar_tensor(output.toScalar())
                                         : at::Tensor();
    if (value.defined()) numbers[text("output ", i)] = value.detach().clone();
  }
  std::vector<at::Tensor> leaves;
  for (const Weight& weight : weights) {
    if (weight.kind == ir::InputKind::kBuffer) numbers["the buffer " + weight.name] = weight.tensor.detach().clone();
    const bool known =
        std::any_of(leaves.begin(), leaves.end(), [&](const at::Tensor& t) { return t.is_same(weight.tensor); });
    if (weight.tensor.requires_grad() && weight.tensor.is_leaf() && !known) leaves.push_back(weight.tensor);
  }
  const at::Tensor loss = loss_of(outputs);
  if (!loss.defined() || leaves.empty()) return numbers;
  const auto gradients = torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, /*allow_unused=*/true);
  for (const Weight& weight : weights) {
    at::Tensor sum;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!gradients[i].defined() || !same_memory(leaves[i], weight.tensor)) continue;
      sum = sum.defined() ? sum + gradients[i] : gradients[i];
    }
    if (sum.defined()) numbers["the gradient of " + weight.name] = sum.detach();
  }
  return numbers;
}

Numbers own_numbers(const Subject& subject, Mode mode, const Leaves& inputs) {
  const Untouched untouched(subject.weights);
  return numbers_of(flatten(subject.run(mode, inputs)), subject.weights);
}

Result<Numbers> captured_numbers(const ir::Model& model, const Subject& subject, Mode mode, const Leaves& inputs) {
  const Result<Engine> engine = Engine::create(model, device_of(subject.weights));
  if (!engine.ok()) return engine.status();
  RunOptions options;
  options.random = std::nullopt;
  const Leaves outputs = engine->run(mode, inputs, options);
  Weights weights = subject.weights;
  for (Weight& weight : weights) {
    const auto name = std::find(engine->names().begin(), engine->names().end(), weight.name);
    weight.tensor = engine->tensors()[static_cast<std::size_t>(name - engine->names().begin())];
  }
  return numbers_of(outputs, weights);
}

// The largest difference; infinite where the two cannot be compared.
double difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return std::numeric_limits<double>::infinity();
  const at::Tensor equal = at::logical_or(a == b, at::logical_and(a != a, b != b));
  if (equal.all().item<bool>()) return 0;
  const auto wide = a.is_complex() ? at::kComplexDouble : at::kDouble;
  const double largest =
      at::where(equal, at::zeros({}, at::kDouble), (a.to(wide) - b.to(wide)).abs()).max().item<double>();
  return std::isfinite(largest) ? largest : std::numeric_limits<double>::infinity();
}

double largest(const at::Tensor& value) {
  return value.numel() == 0
             ? 0
             : value.to(value.is_complex() ? at::kComplexDouble : at::kDouble).abs().max().item<double>();
}

// `again` is a second run of the model itself: where its own runs differ a little (threads that add in another order),
// so may the graph's.
Status compare(const Numbers& captured, const Numbers& own, const Numbers& again, std::string_view mode) {
  for (const auto& [name, value] : own) {
    const auto found = captured.find(name);
    const double distance = found != captured.end() ? difference(found->second, value) : largest(value);
    if (distance == 0) continue;
    const auto repeated = again.find(name);
    const double noise = repeated != again.end() ? difference(repeated->second, value) : 0;
    if (distance <= std::min(4 * noise, kMostNoise * largest(value))) continue;
    return invalid(name, " of the captured graph differs from the model's own in ", mode, " mode by ", distance,
                   noise > 0 ? ", and two runs of the model from one seed differ too: it draws random numbers from a "
                               "generator of its own, or keeps state outside of its buffers"
                             : ". Likely the model's forward depends on data or on state outside of its buffers");
  }
  for (const auto& [name, value] : captured) {
    if (!own.contains(name) && value.ne(0).any().item<bool>())
      return invalid(name, " of the captured graph has no counterpart in the model in ", mode, " mode");
  }
  return {};
}

}  // namespace

Status check_agreement(const ir::Model& model, const Subject& subject, const Leaves& inputs) {
  KeyedGenerator generator(device_of(subject.weights), RandomKey{});
  const auto copied = [&] {
    const Batch batch = find_batch(subject.example);
    Example example = subject.example;
    example.leaves = inputs;
    return leaves_at(example, batch, batch.size);
  };
  for (const Mode mode : {Mode::kTrain, Mode::kEval}) {
    generator.seed_for(1);
    const Numbers own = own_numbers(subject, mode, copied());
    generator.seed_for(1);
    const Result<Numbers> captured = captured_numbers(model, subject, mode, copied());
    if (!captured.ok()) return captured.status();
    generator.seed_for(1);
    const Numbers again = own_numbers(subject, mode, copied());
    Status status = compare(*captured, own, again, mode == Mode::kTrain ? "training" : "eval");
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace ravnest::graph::script
