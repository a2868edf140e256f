#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <map>
#include <set>

#include "ravnest/graph/frontend/capture/capture.h"
#include "ravnest/graph/frontend/capture/closeness.h"
#include "ravnest/graph/run/random.h"

namespace ravnest::graph::script {
namespace {

// What numbers are of: an output by its index, the gradient of a weight or a buffer by its name.
enum class Kind : unsigned char { kOutput, kGradient, kBuffer };

std::string shown(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kOutput: return text("output ", name);
    case Kind::kGradient: return text("the gradient of ", name);
    case Kind::kBuffer: return text("the buffer ", name);
  }
  return std::string(name);
}

using NumbersOfAKind = std::map<std::string, at::Tensor>;
using Numbers = std::map<Kind, NumbersOfAKind>;

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
    if (value.defined()) numbers[Kind::kOutput][text(i)] = value.detach().clone();
  }
  std::vector<at::Tensor> leaves;
  for (const Weight& weight : weights) {
    if (weight.kind == ir::InputKind::kBuffer) numbers[Kind::kBuffer][weight.name] = weight.tensor.detach().clone();
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
    if (sum.defined()) numbers[Kind::kGradient][weight.name] = sum.detach();
  }
  return numbers;
}

// The functions of the model's own (torch::autograd::Function) that the way back from these outputs goes through.
std::set<std::string> own_functions(const Leaves& outputs) {
  std::set<std::string> found;
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> pending;
  for (const c10::IValue& output : outputs)
    if (output.isTensor() && output.toTensor().defined()) pending.push_back(output.toTensor().grad_fn().get());
  while (!pending.empty()) {
    torch::autograd::Node* node = pending.back();
    pending.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    const std::string name = node->name();
    const auto at = name.find("CppNode<");
    if (at != std::string::npos) found.insert(name.substr(at + 8, name.rfind('>') - at - 8));
    for (const torch::autograd::Edge& edge : node->next_edges()) pending.push_back(edge.function.get());
  }
  return found;
}

// `functions` is set to those of the model's own that its backward goes through.
Numbers own_numbers(const Subject& subject, Mode mode, const Leaves& inputs, std::set<std::string>& functions) {
  const Untouched untouched(subject.weights);
  const Leaves outputs = flatten(subject.run(mode, inputs));
  functions = own_functions(outputs);
  return numbers_of(outputs, subject.weights);
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

// What was looked for and found, as the end of a sentence; where nothing was, what may be worth a look. `noise` is how
// far two runs of the model itself are apart.
std::string reason(Kind kind, const Difference& difference, double noise, const std::set<std::string>& functions) {
  const auto list = [&] {
    std::string names;
    for (const std::string& each : functions) names += (names.empty() ? "" : ", ") + each;
    return names;
  };
  if (!functions.empty() && kind == Kind::kGradient)
    return text(". The model's backward goes through a function of its own (", list(),
                "), which a recording of operators does not hold; write it with ordinary operators");
  if (noise > 0 && difference.rounding()) return text(". Two runs of the model itself differ too, by ", noise);
  if (noise > 0)
    return text(", and two runs of the model from one seed differ too, by ", noise,
                ": look for random numbers from another generator than torch's default one, and for state that is not "
                "in its buffers");
  if (difference.rounding()) return ". Two runs of the model agree to the bit";
  return ". Two runs of the model agree with each other, and its backward has no function of its own. A recording "
         "fixes "
         "branches on data, and numbers that a forward keeps: look for these";
}

const NumbersOfAKind& of_kind(const Numbers& numbers, Kind kind) {
  static const NumbersOfAKind none;
  const auto found = numbers.find(kind);
  return found == numbers.end() ? none : found->second;
}

// `again` is a second run of the model itself.
Result<std::string> compare(const Numbers& captured, const Numbers& own, const Numbers& again, at::ScalarType coarsest,
                            const std::set<std::string>& functions, std::string_view mode) {
  std::string note;
  for (const Kind kind : {Kind::kOutput, Kind::kGradient, Kind::kBuffer}) {
    const NumbersOfAKind& all_captured = of_kind(captured, kind);
    const NumbersOfAKind& all_own = of_kind(own, kind);
    std::vector<Compared> pairs;
    for (const auto& [name, value] : all_own) {
      const auto found = all_captured.find(name);
      pairs.push_back({name, found != all_captured.end() ? found->second : at::Tensor(), value});
    }
    for (const auto& [name, value] : all_captured)
      if (!all_own.contains(name)) pairs.push_back({name, value, at::Tensor()});
    std::vector<Difference> found = differences(pairs, coarsest);
    if (found.empty()) continue;
    const Difference& worst = *std::max_element(
        found.begin(), found.end(), [](const Difference& a, const Difference& b) { return a.excess() < b.excess(); });
    const auto first = all_own.find(worst.name);
    const auto second = of_kind(again, kind).find(worst.name);
    double noise = 0;
    if (first != all_own.end() && second != of_kind(again, kind).end()) {
      const Compared pair{worst.name, second->second, first->second};
      const std::vector<Difference> apart = differences({&pair, 1}, coarsest);
      if (!apart.empty()) noise = apart.front().absolute;
    }
    std::string sentence =
        text(shown(kind, worst.name), " of the captured graph differs from the model's own in ", mode, " mode by ",
             worst.absolute, ", where the largest value is ", worst.largest, reason(kind, worst, noise, functions));
    if (!worst.rounding()) return invalid(sentence);
    if (note.empty()) note = std::move(sentence);
  }
  return note;
}

}  // namespace

Result<std::string> check_equivalence(const ir::Model& model, const Subject& subject, const Leaves& inputs,
                                      KeyedGenerator& generator) {
  const auto copied = [&] {
    const BatchedLeaves batch = find_batch(subject.example);
    Example example = subject.example;
    example.leaves = inputs;
    return leaves_at(example, batch, batch.size);
  };
  std::vector<at::Tensor> tensors;
  for (const Weight& weight : subject.weights) tensors.push_back(weight.tensor);
  std::string note;
  for (const Mode mode : {Mode::kTrain, Mode::kEval}) {
    std::set<std::string> functions;
    generator.seed_for(1);
    const Numbers own = own_numbers(subject, mode, copied(), functions);
    generator.seed_for(1);
    const Result<Numbers> captured = captured_numbers(model, subject, mode, copied());
    if (!captured.ok()) return captured.status();
    generator.seed_for(1);
    const Numbers again = own_numbers(subject, mode, copied(), functions);
    const Result<std::string> compared =
        compare(*captured, own, again, coarsest_type(tensors), functions, mode == Mode::kTrain ? "training" : "eval");
    if (!compared.ok()) return compared.status();
    if (note.empty()) note = *compared;
  }
  return note;
}

}  // namespace ravnest::graph::script
