#include "ravnest/checkpoint/state/part_state.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/graph/operators/tensors.h"

namespace ravnest::checkpoint {
namespace {

using archive::NamedPayloads;
using archive::Payload;

// Options that schedules set, by torch's names.
constexpr std::array<std::string_view, 7> kRates = {"lr",           "initial_lr",    "max_lr",  "min_lr",
                                                    "max_momentum", "base_momentum", "momentum"};

bool is_rate(std::string_view option, const optim::Options& options) {
  if (option == "betas") return options.contains("max_momentum");  // OneCycleLR and CyclicLR turn the first one
  if (option == "momentum") return options.contains("max_momentum");
  return std::ranges::find(kRates, option) != kRates.end();
}

const Payload* find(const NamedPayloads& payloads, const std::string& name) {
  const auto found = std::ranges::find(payloads, name, &NamedPayloads::value_type::first);
  return found == payloads.end() ? nullptr : &found->second;
}

std::map<std::string_view, const Payload*> by_name(const NamedPayloads& payloads) {
  std::map<std::string_view, const Payload*> map;
  for (const auto& [name, payload] : payloads) map.emplace(name, &payload);
  return map;
}

Status check_like(const std::string& name, const Payload& stored, const at::Tensor& own) {
  const at::IntArrayRef sizes(stored.sizes);
  if (sizes == own.sizes() && graph::to_torch(stored.dtype) == own.scalar_type()) return {};
  return invalid("\"", printable(name), "\" has sizes ", sizes, " and type ",
                 c10::toString(graph::to_torch(stored.dtype)), " in the checkpoint, ", own.sizes(), " and ",
                 c10::toString(own.scalar_type()), " here: it is of another model");
}

Status write(const std::string& name, const Payload& stored, const at::Tensor& own) {
  if (Status like = check_like(name, stored, own); !like.ok()) return like;
  auto tensor = tensor_of(stored);
  if (!tensor.ok()) return tensor.status();
  own.variable_data().copy_(*tensor);
  return {};
}

optim::NamedTensors tensors_of(const NamedPayloads& payloads) {
  optim::NamedTensors tensors;
  for (const auto& [name, payload] : payloads) {
    if (auto tensor = tensor_of(payload); tensor.ok()) tensors.emplace(name, *tensor);
  }
  return tensors;
}

}  // namespace

Result<at::Tensor> tensor_of(const Payload& payload) {
  if (Status sound = archive::check(payload); !sound.ok()) return sound;
  const auto& bytes = payload.storage->bytes;
  const std::size_t item = item_size(payload.dtype);
  // torch asks for memory that may be written; whoever has the tensor does not.
  auto* const data = const_cast<std::byte*>(bytes.data()) + static_cast<std::size_t>(payload.storage_offset) * item;
  return at::from_blob(
      data, payload.sizes, payload.strides, [storage = payload.storage](void*) {},
      at::TensorOptions(graph::to_torch(payload.dtype)));
}

NamedPayloads copied(const RecordTensors& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> own;
  for (const auto& [name, tensor] : tensors)
    own.push_back(tensor.detach().to(tensor.options().device(at::kCPU), /*non_blocking=*/false, /*copy=*/true));
  std::vector<Payload> payloads = graph::to_payloads(own);
  NamedPayloads named;
  for (std::size_t i = 0; i < tensors.size(); ++i) named.emplace_back(tensors[i].first, std::move(payloads[i]));
  return named;
}

TensorNames tensor_names(const graph::Engine& engine) {
  TensorNames names;
  for (const auto& [name, tensor] : engine.parameters()) names.weights.insert(name);
  const ir::Model model = engine.model();
  for (const auto& [name, payload] : model.weights) names.weights.insert(name);
  for (const std::size_t index : engine.written_buffers()) {
    if (!names.weights.contains(engine.names()[index])) names.buffers.insert(engine.names()[index]);
  }
  return names;
}

PartState::PartState(const graph::Engine& engine, std::span<const at::Tensor> parameters)
    : engine_(engine), written_(engine.names().size()), parameters_(parameters.begin(), parameters.end()) {
  const ir::Model model = engine.model();
  weights_ = model.weights.size();
  for (const auto& [name, payload] : model.weights) is_parameter_.push_back(payload.is_parameter);
  for (const std::size_t index : engine.written_buffers()) {
    written_[index] = true;
    if (index >= weights_) extra_.push_back(index);
  }
  for (const at::Tensor& parameter : parameters_) {
    const auto tensors = engine.tensors();
    const auto found = std::ranges::find_if(tensors, [&](const at::Tensor& one) { return one.is_same(parameter); });
    TORCH_CHECK(found != tensors.end(), "a parameter is none of the engine's");
    names_.push_back(engine.names()[static_cast<std::size_t>(found - tensors.begin())]);
  }
}

// The keys of the whole model.
std::vector<std::string> PartState::order() const {
  const auto& stage = engine_.stage();
  if (stage && !stage->state_dict.empty()) return stage->state_dict;
  return {engine_.names().begin(), engine_.names().begin() + static_cast<std::ptrdiff_t>(weights_)};
}

// Also where all of this part's are there: a model that has lost a layer since is another one.
Status PartState::check_same_keys(const Part& part) const {
  const std::vector<std::string> own = order();
  const auto lacking = [](const std::vector<std::string>& some, const std::vector<std::string>& others) {
    const std::set<std::string_view> there(others.begin(), others.end());
    return std::ranges::find_if(some, [&](const std::string& name) { return !there.contains(name); });
  };
  if (const auto name = lacking(own, part.order); name != own.end())
    return not_found("the checkpoint has no weight \"", printable(*name), "\": it is of another model");
  if (const auto name = lacking(part.order, own); name != part.order.end())
    return not_found("the checkpoint has the weight \"", printable(*name),
                     "\", and this model has not: it is of another model");
  return {};
}

void PartState::capture(Part& part, std::span<const at::Tensor> tensors, const optim::Optimizer* optimizer,
                        bool weights_stay) {
  const at::NoGradGuard no_grad;
  // Names of one tensor go on sharing one.
  std::map<const void*, at::Tensor> copies;
  const auto own = [&](std::size_t index) {
    const at::Tensor& tensor = tensors[index];
    if (weights_stay && !written_[index]) return tensor;
    at::Tensor& copy = copies[tensor.unsafeGetTensorImpl()];
    if (!copy.defined()) copy = tensor.is_cpu() ? tensor.detach().clone() : tensor.detach().to(at::kCPU);
    return copy;
  };
  std::vector<at::Tensor> kept;
  for (std::size_t i = 0; i < weights_; ++i) kept.push_back(own(i));
  for (const std::size_t i : extra_) kept.push_back(own(i));
  std::vector<Payload> payloads = graph::to_payloads(kept);
  part.weights.clear();
  part.buffers.clear();
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    const std::size_t index = i < weights_ ? i : extra_[i - weights_];
    payloads[i].is_parameter = index < weights_ && is_parameter_[index];
    payloads[i].requires_grad = engine_.tensors()[index].requires_grad();
    (i < weights_ ? part.weights : part.buffers).emplace_back(engine_.names()[index], std::move(payloads[i]));
  }
  part.order = order();
  part.optimizer = {};
  if (optimizer == nullptr) return;
  part.optimizer.name = std::string(optimizer->name());
  const optim::OptimizerState state = optimizer->state();
  for (const optim::ParameterGroup& group : state.groups) {
    OptimizerGroup& stored = part.optimizer.groups.emplace_back();
    stored.options = group.options;
    for (const std::size_t index : group.parameters) stored.parameters.push_back(names_[index]);
  }
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    if (state.tensors[i].empty()) continue;
    RecordTensors named;
    for (const auto& [name, tensor] : state.tensors[i]) named.emplace_back(name, tensor);
    part.optimizer.tensors.emplace(names_[i], copied(named));
  }
  for (std::size_t i = 0; i < state.values.size(); ++i) {
    if (!state.values[i].empty()) part.optimizer.values.emplace(names_[i], state.values[i]);
  }
}

std::vector<std::string> PartState::options_kept(const Part& part, const optim::Optimizer* optimizer,
                                                 bool scheduled) const {
  std::vector<std::string> kept;
  if (optimizer == nullptr || parameters_.empty()) return kept;
  const auto groups = optimizer->state().groups;
  for (std::size_t i = 0; i < std::min(groups.size(), part.optimizer.groups.size()); ++i) {
    const optim::Options& own = groups[i].options;
    for (const auto& [name, stored] : part.optimizer.groups[i].options) {
      const auto present = own.find(name);
      if (present == own.end() || (scheduled && is_rate(name, own))) continue;
      const std::string was = optim::words(stored);
      const std::string is = optim::words(present->second);
      std::string words = text(name, " ", was, " (", is, " here)");
      if (was != is && std::ranges::find(kept, words) == kept.end()) kept.push_back(std::move(words));
    }
  }
  return kept;
}

Status PartState::fits(const Part& part, const optim::Optimizer* optimizer) const {
  if (Status same = check_same_keys(part); !same.ok()) return same;
  const auto weights = by_name(part.weights);
  for (std::size_t i = 0; i < weights_; ++i) {
    const std::string& name = engine_.names()[i];
    const auto found = weights.find(name);
    if (found == weights.end())
      return not_found("the checkpoint has no weight \"", printable(name), "\": it is of another model");
    if (Status like = check_like(name, *found->second, engine_.tensors()[i]); !like.ok()) return like;
  }
  if (optimizer == nullptr || parameters_.empty()) return {};
  const std::string& stored = part.optimizer.name;
  if (stored == optimizer->name()) return {};
  return invalid("the checkpoint is of a run with the optimizer ", stored.empty() ? "none" : printable(stored),
                 ", this one has ", printable(std::string(optimizer->name())),
                 ": go on with the same, or begin anew from its weights (ravnest checkpoint export)");
}

Status PartState::restore(const Part& part, optim::Optimizer* optimizer, bool scheduled) const {
  const at::NoGradGuard no_grad;
  if (Status fit = fits(part, optimizer); !fit.ok()) return fit;
  const auto weights = by_name(part.weights);
  for (std::size_t i = 0; i < weights_; ++i) {
    const std::string& name = engine_.names()[i];
    if (Status written = write(name, *weights.at(name), engine_.tensors()[i]); !written.ok()) return written;
  }
  for (const std::size_t i : extra_) {
    const std::string& name = engine_.names()[i];
    const Payload* stored = find(part.buffers, name);
    if (stored == nullptr) return not_found("the checkpoint has no buffer \"", printable(name), "\"");
    if (Status written = write(name, *stored, engine_.tensors()[i]); !written.ok()) return written;
  }
  if (optimizer == nullptr || parameters_.empty()) return {};
  return restore_optimizer(part.optimizer, *optimizer, scheduled);
}

Status PartState::restore_optimizer(const OptimizerPart& part, optim::Optimizer& optimizer, bool scheduled) const {
  std::map<std::string_view, std::size_t> index_of;
  for (std::size_t i = 0; i < names_.size(); ++i) index_of.emplace(names_[i], i);
  // Of names of one tensor the part may know another one.
  for (std::size_t i = 0; i < weights_; ++i) {
    const auto own =
        std::ranges::find_if(parameters_, [&](const auto& one) { return one.is_same(engine_.tensors()[i]); });
    if (own != parameters_.end())
      index_of.emplace(engine_.names()[i], static_cast<std::size_t>(own - parameters_.begin()));
  }
  const std::vector<optim::ParameterGroup> present = std::as_const(optimizer).state().groups;
  if (present.size() != part.groups.size()) {
    return invalid("the optimizer has ", present.size(), " param groups here, and ", part.groups.size(),
                   " in the checkpoint: give it the same groups");
  }
  optim::OptimizerState state;
  state.tensors.resize(names_.size());
  state.values.resize(names_.size());
  for (std::size_t i = 0; i < part.groups.size(); ++i) {
    optim::ParameterGroup& group = state.groups.emplace_back();
    group.options = part.groups[i].options;
    for (const auto& [name, value] : present[i].options) {
      if (scheduled && is_rate(name, present[i].options)) group.options.insert_or_assign(name, value);
    }
    group.parameters = present[i].parameters;
    if (present.size() == 1 && group.parameters.empty()) {
      // One that was made for all parameters has no numbers before its first step.
      group.parameters.resize(names_.size());
      std::iota(group.parameters.begin(), group.parameters.end(), 0);
    }
    for (const std::string& name : part.groups[i].parameters) {
      const auto found = index_of.find(name);
      if (found == index_of.end() || std::ranges::find(group.parameters, found->second) != group.parameters.end())
        continue;
      return invalid("\"", printable(name), "\" is in param group ", i,
                     " of the checkpoint, and in another one here: give the optimizer the same groups");
    }
  }
  for (const auto& [name, tensors] : part.tensors) {
    if (const auto found = index_of.find(name); found != index_of.end())
      state.tensors[found->second] = tensors_of(tensors);
  }
  for (const auto& [name, values] : part.values) {
    if (const auto found = index_of.find(name); found != index_of.end()) state.values[found->second] = values;
  }
  return optimizer.load(parameters_, state);
}

}  // namespace ravnest::checkpoint
