#include "ravnest/worker/group_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "ravnest/worker/optimizer_state_values.h"

namespace ravnest::worker {
namespace {

using at::Tensor;

std::vector<float> values_of(std::span<const Tensor> tensors, Staging& staging) {
  std::size_t count = 0;
  for (const Tensor& tensor : tensors) count += static_cast<std::size_t>(tensor.numel());
  std::vector<float> values(count);
  std::size_t at = 0;
  for (const Tensor& tensor : tensors) {
    const auto own = static_cast<std::size_t>(tensor.numel());
    staging.fetch(tensor, std::span(values).subspan(at, own));
    at += own;
  }
  staging.finish();
  return values;
}

// Takes as many values as the tensor has from `at` on.
void take(const std::vector<float>& given, const std::vector<float>& mean, std::size_t& at, bool unchanged,
          const Tensor& into, Staging& staging) {
  const auto count = static_cast<std::size_t>(into.numel());
  TORCH_CHECK(at + count <= given.size() && at + count <= mean.size(), "a round gave ", mean.size(),
              " values of an averaging group that has more");
  const auto tensor = [&](const std::vector<float>& values) {
    return at::from_blob(const_cast<float*>(values.data() + at), into.sizes(), at::kFloat);
  };
  if (unchanged)
    into.copy_(staging.send(tensor(mean), into.device()));
  else
    into.add_(staging.send(at::sub(tensor(mean), tensor(given)), into.device()));
  at += count;
}

}  // namespace

GroupTensors::GroupTensors(const std::vector<std::vector<std::string>>& averaging_groups,
                           std::span<const std::string> names, std::span<const Tensor> tensors,
                           std::span<const std::size_t> written, const optim::ParameterStore& store) {
  std::set<int> known;  // a weight of two names is one
  for (const std::vector<std::string>& averaging_group : averaging_groups) {
    Contents& own = averaging_groups_.emplace_back();
    for (const std::string& name : averaging_group) {
      const auto found = std::ranges::find(names, name);
      TORCH_CHECK(found != names.end(), "the stage has no ", name, " to average");
      const auto i = static_cast<std::size_t>(found - names.begin());
      if (!at::isFloatingType(tensors[i].scalar_type())) continue;
      const int parameter = store.parameter_of(i);
      if (parameter >= 0 && known.insert(parameter).second)
        own.parameters.push_back(static_cast<std::size_t>(parameter));
      else if (parameter < 0 && std::ranges::find(written, i) != written.end())
        own.statistics.push_back(tensors[i]);
    }
  }
}

checkpoint::RecordTensors GroupTensors::named(const std::vector<std::vector<float>>& by_group,
                                              std::span<const std::string> names,
                                              const optim::ParameterStore& store) const {
  checkpoint::RecordTensors named;
  bool all_zero = true;
  for (std::size_t i = 0; i < by_group.size() && i < averaging_groups_.size(); ++i) {
    std::size_t at = 0;
    for (const std::size_t parameter : averaging_groups_[i].parameters) {
      const Tensor& like = store.parameters()[parameter];
      const auto count = static_cast<std::size_t>(like.numel());
      if (at + count > by_group[i].size()) break;
      const auto own = std::span(by_group[i]).subspan(at, count);
      all_zero = all_zero && std::ranges::all_of(own, [](float value) { return value == 0; });
      named.emplace_back(names[parameter],
                         at::from_blob(const_cast<float*>(own.data()), like.sizes(), at::kFloat).clone());
      at += count;
    }
  }
  return all_zero ? checkpoint::RecordTensors() : named;
}

Result<std::vector<std::vector<float>>> GroupTensors::by_group(const archive::NamedPayloads& named,
                                                               std::span<const std::string> names,
                                                               const optim::ParameterStore& store) const {
  std::vector<std::vector<float>> by_group(averaging_groups_.size());
  if (named.empty()) return std::vector<std::vector<float>>();
  for (std::size_t i = 0; i < by_group.size(); ++i) {
    for (const std::size_t parameter : averaging_groups_[i].parameters) {
      const auto count = static_cast<std::size_t>(store.parameters()[parameter].numel());
      const auto found = std::ranges::find(named, names[parameter], &archive::NamedPayloads::value_type::first);
      std::vector<float> values(count);
      if (found != named.end()) {
        auto tensor = checkpoint::tensor_of(found->second);
        if (!tensor.ok()) return tensor.status();
        if (tensor->sizes() != store.parameters()[parameter].sizes())
          return corrupt("what is averaged of ", names[parameter], " has sizes ", tensor->sizes(),
                         " in the checkpoint");
        at::from_blob(values.data(), tensor->sizes(), at::kFloat).copy_(*tensor);
      }
      by_group[i].insert(by_group[i].end(), values.begin(), values.end());
    }
  }
  return by_group;
}

checkpoint::RecordTensors GroupTensors::beyond_16_bits(const average::StageValues& mean,
                                                       std::span<const std::string> names,
                                                       const optim::ParameterStore& store) const {
  checkpoint::RecordTensors beyond;
  for (std::size_t i = 0; i < mean.size() && i < averaging_groups_.size(); ++i) {
    const float* value = mean[i].parameters.data();
    for (const std::size_t parameter : averaging_groups_[i].parameters) {
      const Tensor& like = store.parameters()[parameter];
      if (like.element_size() == 2)
        beyond.emplace_back(names[parameter],
                            at::from_blob(const_cast<float*>(value), like.sizes(), at::kFloat).clone());
      value += like.numel();
    }
  }
  return beyond;
}

Status GroupTensors::take_beyond_16_bits(const archive::NamedPayloads& named, std::span<const std::string> names,
                                         const optim::ParameterStore& store, average::StageValues& values) const {
  const auto held = by_group(named, names, store);
  if (!held.ok()) return held.status();
  for (std::size_t i = 0; i < held->size(); ++i) {
    std::size_t at = 0;
    for (const std::size_t parameter : averaging_groups_[i].parameters) {
      const auto count = static_cast<std::size_t>(store.parameters()[parameter].numel());
      if (std::ranges::find(named, names[parameter], &archive::NamedPayloads::value_type::first) != named.end())
        std::copy_n((*held)[i].begin() + static_cast<std::ptrdiff_t>(at), count,
                    values[i].parameters.begin() + static_cast<std::ptrdiff_t>(at));
      at += count;
    }
  }
  return {};
}

average::StageValues GroupTensors::values(const optim::ParameterStore& store, const optim::Optimizer* optimizer) {
  const at::NoGradGuard without_gradients;
  average::StageValues values;
  for (const Contents& averaging_group : averaging_groups_) {
    average::GroupValues& own = values.emplace_back();
    std::vector<Tensor> parameters;
    for (const std::size_t parameter : averaging_group.parameters) parameters.push_back(store.parameters()[parameter]);
    own.parameters = values_of(parameters, staging_);
    own.statistics = values_of(averaging_group.statistics, staging_);
    if (optimizer != nullptr)
      own.optimizer_state =
          optimizer_state_values(*optimizer, store.parameters(), averaging_group.parameters, staging_);
  }
  return values;
}

Status GroupTensors::take_in(const average::RoundResult& result, bool unchanged, const optim::ParameterStore& store,
                             optim::Optimizer* optimizer) {
  const at::NoGradGuard without_gradients;
  TORCH_CHECK(result.mean.size() == averaging_groups_.size() && result.given.size() == averaging_groups_.size(),
              "a round gave ", result.mean.size(), " averaging groups of ", averaging_groups_.size());
  for (std::size_t i = 0; i < averaging_groups_.size(); ++i) {
    const average::GroupValues& given = result.given[i];
    const average::GroupValues& mean = result.mean[i];
    std::size_t at = 0;
    for (const std::size_t parameter : averaging_groups_[i].parameters)
      take(given.parameters, mean.parameters, at, unchanged, store.parameters()[parameter], staging_);
    at = 0;
    // Passes in flight have these among what autograd keeps, and do not use them: nobody is to mind the change.
    for (const Tensor& statistic : averaging_groups_[i].statistics)
      take(given.statistics, mean.statistics, at, unchanged, statistic.variable_data(), staging_);
  }
  staging_.finish();
  if (optimizer == nullptr) return {};
  optim::OptimizerState state = optimizer->state();
  const std::vector<optim::StateName> names = optimizer->state_names();
  for (std::size_t i = 0; i < averaging_groups_.size(); ++i) {
    take_optimizer_state(state, names, result.given[i].optimizer_state, result.mean[i].optimizer_state, unchanged,
                         store.parameters(), averaging_groups_[i].parameters);
  }
  return optimizer->load(store.parameters(), state);
}

}  // namespace ravnest::worker
