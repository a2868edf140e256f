#include "ravnest/worker/optimizer_state_values.h"

#include <ATen/ATen.h>

namespace ravnest::worker {
namespace {

using at::Tensor;

std::size_t count_of(const optim::StateName& name, const Tensor& parameter) {
  return name.counter ? 1 : static_cast<std::size_t>(parameter.numel());
}

Tensor over(std::span<const float> values, const optim::StateName& name, const Tensor& parameter) {
  const at::IntArrayRef sizes = name.counter ? at::IntArrayRef() : parameter.sizes();
  return at::from_blob(const_cast<float*>(values.data()), sizes, at::kFloat);
}

}  // namespace

std::vector<float> optimizer_state_values(const optim::Optimizer& optimizer, std::span<const Tensor> parameters,
                                          std::span<const std::size_t> indices, Staging& staging) {
  const optim::OptimizerState state = optimizer.state();
  const std::vector<optim::StateName> names = optimizer.state_names();
  std::size_t count = 0;
  for (const std::size_t index : indices) {
    for (const optim::StateName& each : names) count += 1 + count_of(each, parameters[index]);
  }
  std::vector<float> values(count);
  std::size_t at = 0;
  for (const std::size_t index : indices) {
    for (const optim::StateName& each : names) {
      const std::span<float> own = std::span(values).subspan(at, 1 + count_of(each, parameters[index]));
      at += own.size();
      if (index >= state.tensors.size()) continue;
      const auto found = state.tensors[index].find(each.name);
      if (found == state.tensors[index].end()) continue;
      own[0] = 1;
      staging.fetch(found->second, own.subspan(1));
    }
  }
  staging.finish();
  return values;
}

void take_optimizer_state(optim::OptimizerState& state, std::span<const optim::StateName> names,
                          std::span<const float> given, std::span<const float> mean, bool unchanged,
                          std::span<const Tensor> parameters, std::span<const std::size_t> indices) {
  state.tensors.resize(parameters.size());
  std::size_t at = 0;
  for (const std::size_t index : indices) {
    for (const optim::StateName& each : names) {
      const std::size_t count = count_of(each, parameters[index]);
      TORCH_CHECK(at + 1 + count <= mean.size() && mean.size() == given.size(), "a round gave ", mean.size(),
                  " values of an optimizer that has more");
      const float kept_by = mean[at];  // the share of the clusters, by weight
      const bool had = given[at] > 0;
      const auto values = [&](std::span<const float> of) {
        return over(of.subspan(at + 1, count), each, parameters[index]);
      };
      if (kept_by > 0) {
        Tensor averaged = values(mean) / kept_by;
        const auto own = state.tensors[index].find(each.name);
        if (!unchanged && own != state.tensors[index].end() && had) {
          const Tensor now = own->second.to(at::kCPU, at::kFloat).reshape(averaged.sizes());
          averaged = now + (averaged - values(given));
        }
        state.tensors[index].insert_or_assign(each.name, averaged);
      }
      at += 1 + count;
    }
  }
}

}  // namespace ravnest::worker
