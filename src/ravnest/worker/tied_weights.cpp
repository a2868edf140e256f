#include "ravnest/worker/tied_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "ravnest/stage/routes.h"
#include "ravnest/worker/tensors.h"

namespace ravnest::worker {
namespace {

using at::Tensor;

// The tensors of the message for that stage.
std::vector<wire::NamedTensor>& tensors_for(int stage, std::vector<Outgoing>& messages) {
  const auto found = std::ranges::find(messages, stage, &Outgoing::stage);
  return std::get<wire::TiedTensors>(found->message).tensors;
}

Status check_sizes(const wire::Tensor& sent, const Tensor& own, std::uint32_t stage, const std::string& what) {
  if (has_sizes(sent, own.sizes())) return {};
  return invalid("stage ", stage, " sent ", what, " in sizes ", at::IntArrayRef(sent.shape), ", here they are ",
                 own.sizes());
}

}  // namespace

TiedWeights::TiedWeights(const ir::StageInfo& stage, const std::vector<std::string>& names,
                         const optim::ParameterStore& store)
    : self_(stage.index) {
  const stage::StageOptions place = stage::stage_options(stage);
  keepers_ = place.tied_keepers;
  users_ = place.tied_users;
  std::set<int> known;  // a weight of two names is one
  for (const auto& [name, stages] : stage.tied) {
    const auto tensor = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    const int parameter = store.parameter_of(tensor);
    if (parameter < 0 || !known.insert(parameter).second) continue;
    weights_.push_back(
        {name, static_cast<std::size_t>(parameter), stage::keeper_of(stages), {stages.begin() + 1, stages.end()}});
  }
}

const TiedWeights::Weight* TiedWeights::find(const std::string& name) const {
  const auto found = std::ranges::find(weights_, name, &Weight::name);
  return found == weights_.end() ? nullptr : &*found;
}

std::vector<Outgoing> TiedWeights::messages_for(const std::vector<int>& stages, bool gradients,
                                                std::uint64_t number) const {
  std::vector<Outgoing> messages;
  for (const int stage : stages) {
    Outgoing& outgoing = messages.emplace_back();
    outgoing.stage = stage;
    outgoing.message = wire::TiedTensors{gradients, number, static_cast<std::uint32_t>(self_), {}};
  }
  return messages;
}

Result<std::vector<Tensor>> TiedWeights::sum(std::vector<wire::TiedTensors> sent, std::span<const Tensor> parameters,
                                             const codec::Codec& agreed) const {
  // The last stage first: as one process would add them up.
  std::ranges::sort(sent, std::greater(), &wire::TiedTensors::stage);
  std::vector<Tensor> sums(parameters.size());
  for (const wire::TiedTensors& part : sent) {
    for (const wire::NamedTensor& named : part.tensors) {
      const Weight* weight = find(named.name);
      if (weight == nullptr || weight->keeper != self_) {
        return invalid("stage ", part.stage, " sent a gradient of \"", named.name, "\", which is not kept here");
      }
      const Tensor& own = parameters[weight->parameter];
      const std::string what = text("a gradient of \"", named.name, "\"");
      if (Status fits = check_sizes(named.tensor, own, part.stage, what); !fits.ok()) return fits;
      auto gradient = from_wire(named.tensor, own.device(), agreed);
      if (!gradient.ok()) return gradient.status();
      Tensor& sum = sums[weight->parameter];
      sum = sum.defined() ? sum + *gradient : std::move(*gradient);
    }
  }
  return sums;
}

std::vector<Outgoing> TiedWeights::take_out(std::span<Tensor> gradients, std::uint64_t number,
                                            const std::function<wire::Tensor(const Tensor&)>& pack) const {
  std::vector<Outgoing> messages = messages_for(keepers_, true, number);
  for (const Weight& weight : weights_) {
    if (weight.keeper == self_) continue;
    const Tensor gradient = std::exchange(gradients[weight.parameter], Tensor());
    if (gradient.defined()) tensors_for(weight.keeper, messages).push_back({weight.name, pack(gradient)});
  }
  return messages;
}

std::vector<Outgoing> TiedWeights::values(std::uint64_t updates, const std::shared_ptr<const optim::Version>& version,
                                          bool host) const {
  std::vector<Outgoing> messages = messages_for(users_, false, updates);
  for (const Weight& weight : weights_) {
    if (weight.keeper != self_) continue;
    const wire::Tensor value = to_wire(version->parameters[weight.parameter], {}, host, version);
    for (const int user : weight.users) tensors_for(user, messages).push_back({weight.name, value});
  }
  return messages;
}

std::vector<std::size_t> TiedWeights::kept_by(int stage) const {
  std::vector<std::size_t> parameters;
  for (const Weight& weight : weights_) {
    if (weight.keeper == stage) parameters.push_back(weight.parameter);
  }
  return parameters;
}

Status TiedWeights::adopt(const wire::TiedTensors& values, std::span<const Tensor> parameters) const {
  const at::NoGradGuard without_gradients;
  for (const wire::NamedTensor& named : values.tensors) {
    const Weight* weight = find(named.name);
    if (weight == nullptr || weight->keeper != static_cast<int>(values.stage)) {
      return invalid("stage ", values.stage, " sent values of \"", named.name, "\", which it does not keep");
    }
    const Tensor& own = parameters[weight->parameter];
    if (Status fits = check_sizes(named.tensor, own, values.stage, text('"', named.name, '"')); !fits.ok()) return fits;
    auto value = from_wire(named.tensor, own.device());
    if (!value.ok()) return value.status();
    own.copy_(*value);
  }
  return {};
}

}  // namespace ravnest::worker
