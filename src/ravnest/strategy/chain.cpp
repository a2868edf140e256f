#include "ravnest/strategy/chain.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ravnest/graph/run/differentiate.h"

namespace ravnest::strategy {
namespace {

using at::Tensor;
using c10::IValue;
using graph::Mode;

const ir::Routing& routing_of(const graph::Engine& unit) { return unit.stage()->train; }

// The engine's tensors that are trained, each under the first of its names.
std::vector<std::size_t> trained_tensors(const graph::Engine& whole) {
  std::vector<std::size_t> trained;
  std::set<const void*> seen;
  for (std::size_t i = 0; i < whole.tensors().size(); ++i) {
    const Tensor& tensor = whole.tensors()[i];
    if (tensor.requires_grad() && seen.insert(tensor.unsafeGetTensorImpl()).second) trained.push_back(i);
  }
  return trained;
}

}  // namespace

Result<Chain> Chain::cut(const graph::Engine& whole, std::span<const int> cuts) {
  auto engines = whole.slice(cuts);
  if (!engines.ok()) return engines.status();
  Chain chain;
  chain.parameters_ = trained_tensors(whole);
  std::map<const void*, std::size_t> number;  // of each parameter
  for (std::size_t i = 0; i < chain.parameters_.size(); ++i)
    number.emplace(whole.tensors()[chain.parameters_[i]].unsafeGetTensorImpl(), i);
  std::vector<std::vector<std::size_t>> users(chain.parameters_.size());
  for (graph::Engine& engine : *engines) {
    Unit unit{.engine = std::move(engine), .tensors = {}, .parameters = {}};
    for (const std::string& name : unit.engine.names())
      unit.tensors.push_back(static_cast<std::size_t>(std::ranges::find(whole.names(), name) - whole.names().begin()));
    for (const Tensor& tensor : unit.engine.tensors()) {
      const auto found = number.find(tensor.unsafeGetTensorImpl());
      if (found == number.end() || std::ranges::count(unit.parameters, found->second) > 0) continue;
      unit.parameters.push_back(found->second);
      users[found->second].push_back(chain.units_.size());
    }
    chain.units_.push_back(std::move(unit));
  }
  // Last used first, as backward completes them; and what several units use is the root's, since its sum is complete
  // only when the first of them is through.
  chain.owned_.resize(chain.units_.size() + 1);
  for (std::size_t i = users.size(); i-- > 0;)
    chain.owned_[users[i].size() == 1 ? users[i].front() : chain.units_.size()].push_back(i);
  return chain;
}

Chain::Pass Chain::forward(std::span<const Tensor> tensors, std::vector<IValue> inputs,
                           const graph::RunOptions& options, ChainObserver& observer) const {
  const at::AutoGradMode with_gradients(true);
  Pass pass;
  for (const std::size_t i : parameters_) pass.parameters.push_back(tensors[i]);
  for (int k = 0; k < units(); ++k) {
    observer.before_forward(k);
    const Unit& unit = units_[static_cast<std::size_t>(k)];
    std::vector<Tensor> own;
    for (const std::size_t i : unit.tensors) own.push_back(tensors[i]);
    Pass::Unit record;
    for (const ir::Source& source : routing_of(unit.engine).inputs) {
      const bool is_given = source.stage < 0;
      const auto index = static_cast<std::size_t>(source.index);
      // Cut off from the unit that made it: its record ends here, so this unit's can be differentiated, and freed,
      // before that one's.
      const Tensor made = is_given ? Tensor() : pass.units[static_cast<std::size_t>(source.stage)].outputs[index];
      record.takes_gradient.push_back(!is_given && made.requires_grad());
      record.inputs.push_back(is_given ? inputs[index] : graph::detached(made, made.requires_grad()));
    }
    std::vector<IValue> outputs = unit.engine.run(Mode::kTrain, own, record.inputs, options);
    record.outputs = graph::tensors_of(outputs);
    pass.units.push_back(std::move(record));
    // What the criterion sees has its record: that of the last unit, where backward begins.
    if (k + 1 == units()) pass.outputs = std::move(outputs);
    observer.after_forward(k);
  }
  return pass;
}

std::vector<Tensor> Chain::leaves(const Pass& pass) const {
  std::vector<Tensor> leaves = pass.parameters;
  const Pass::Unit& last = pass.units.back();
  for (std::size_t i = 0; i < last.inputs.size(); ++i) {
    if (last.takes_gradient[i]) leaves.push_back(last.inputs[i].toTensor());
  }
  return leaves;
}

void Chain::backward(Pass pass, const Tensor& loss, ChainObserver& observer) const {
  pass.outputs.clear();  // or they would hold the last unit's activations to the end
  Gradients edges;
  std::vector<Tensor> parameters(parameters_.size());
  for (int k = units(); k-- > 0;) backward_of(k, pass, loss, edges, parameters, observer);
  std::vector<Tensor> shared;
  for (const std::size_t i : parameters_of(root())) shared.push_back(std::move(parameters[i]));
  observer.after_backward(root(), shared);
}

void Chain::backward_of(int unit, Pass& pass, const Tensor& loss, Gradients& edges, std::vector<Tensor>& parameters,
                        ChainObserver& observer) const {
  observer.before_backward(unit);
  const Unit& own = units_[static_cast<std::size_t>(unit)];
  Pass::Unit record = std::move(pass.units[static_cast<std::size_t>(unit)]);
  graph::Roots roots;
  if (unit + 1 == units()) roots.add_loss(loss);
  for (std::size_t i = 0; i < record.outputs.size(); ++i) {
    // Complete: all who read it come later in forward, so they were here before. Nothing was sent for what no loss
    // reaches.
    const auto sent = edges.extract({unit, static_cast<std::int32_t>(i)});
    if (!sent.empty()) roots.add(record.outputs[i], sent.mapped());
  }
  record.outputs.clear();
  std::vector<Tensor> sources;
  std::vector<Tensor*> results;
  for (std::size_t i = 0; i < record.inputs.size(); ++i) {
    if (!record.takes_gradient[i]) continue;
    const ir::Source& source = routing_of(own.engine).inputs[i];
    // What later readers have found is a root at the value itself, to which autograd adds each use here: the order in
    // which one record adds them up, and so the same bits. The result takes the place of what it began with.
    Tensor& so_far = edges[{source.stage, source.index}];
    sources.push_back(record.inputs[i].toTensor());
    roots.add(sources.back(), so_far);
    results.push_back(&so_far);
  }
  for (const std::size_t i : own.parameters) {
    sources.push_back(pass.parameters[i]);
    roots.add(sources.back(), parameters[i]);
    results.push_back(&parameters[i]);
  }
  std::vector<Tensor> gradients = roots.gradients_of(sources);
  for (std::size_t i = 0; i < gradients.size(); ++i) *results[i] = std::move(gradients[i]);
  std::vector<Tensor> complete;
  for (const std::size_t i : parameters_of(unit)) complete.push_back(std::move(parameters[i]));
  observer.after_backward(unit, complete);
}

}  // namespace ravnest::strategy
