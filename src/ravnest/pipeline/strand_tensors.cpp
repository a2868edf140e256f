#include "ravnest/pipeline/strand_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "ravnest/pipeline/kept_values.h"

namespace ravnest::pipeline {
namespace {

using at::Tensor;

void append(std::vector<float>& values, const Tensor& tensor) {
  const auto at = values.size();
  const auto count = static_cast<std::size_t>(tensor.numel());
  values.resize(at + count);
  at::from_blob(values.data() + at, tensor.sizes(), at::kFloat).copy_(tensor);
}

// Takes as many values as the tensor has from `at` on.
void take(const std::vector<float>& given, const std::vector<float>& mean, std::size_t& at, bool unchanged,
          const Tensor& into) {
  const auto count = static_cast<std::size_t>(into.numel());
  TORCH_CHECK(at + count <= given.size() && at + count <= mean.size(), "a round gave ", mean.size(),
              " values of a strand that has more");
  const auto tensor = [&](const std::vector<float>& values) {
    return at::from_blob(const_cast<float*>(values.data() + at), into.sizes(), at::kFloat);
  };
  if (unchanged)
    into.copy_(tensor(mean));
  else
    into.add_(at::sub(tensor(mean), tensor(given)).to(into.device()));
  at += count;
}

}  // namespace

StrandTensors::StrandTensors(const std::vector<std::vector<std::string>>& strands, std::span<const std::string> names,
                             std::span<const Tensor> tensors, std::span<const std::size_t> written,
                             const optim::ParameterStore& store) {
  std::set<int> known;  // a weight of two names is one
  for (const std::vector<std::string>& strand : strands) {
    Strand& own = strands_.emplace_back();
    for (const std::string& name : strand) {
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

StageValues StrandTensors::values(const optim::ParameterStore& store, const optim::Optimizer* optimizer) const {
  const at::NoGradGuard without_gradients;
  StageValues values;
  for (const Strand& strand : strands_) {
    StrandValues& own = values.emplace_back();
    for (const std::size_t parameter : strand.parameters) append(own.parameters, store.parameters()[parameter]);
    for (const Tensor& statistic : strand.statistics) append(own.statistics, statistic);
    if (optimizer != nullptr) own.kept = kept_values(*optimizer, store.parameters(), strand.parameters);
  }
  return values;
}

Status StrandTensors::take_in(const RoundResult& result, bool unchanged, const optim::ParameterStore& store,
                              optim::Optimizer* optimizer) const {
  const at::NoGradGuard without_gradients;
  TORCH_CHECK(result.mean.size() == strands_.size() && result.given.size() == strands_.size(), "a round gave ",
              result.mean.size(), " strands of ", strands_.size());
  for (std::size_t i = 0; i < strands_.size(); ++i) {
    const StrandValues& given = result.given[i];
    const StrandValues& mean = result.mean[i];
    std::size_t at = 0;
    for (const std::size_t parameter : strands_[i].parameters)
      take(given.parameters, mean.parameters, at, unchanged, store.parameters()[parameter]);
    at = 0;
    // Passes in flight have these among what autograd keeps, and do not use them: nobody is to mind the change.
    for (const Tensor& statistic : strands_[i].statistics)
      take(given.statistics, mean.statistics, at, unchanged, statistic.variable_data());
  }
  if (optimizer == nullptr) return {};
  optim::OptimizerState state = optimizer->state();
  const std::vector<optim::KeptName> kept = optimizer->kept();
  for (std::size_t i = 0; i < strands_.size(); ++i) {
    take_kept(state, kept, result.given[i].kept, result.mean[i].kept, unchanged, store.parameters(),
              strands_[i].parameters);
  }
  return optimizer->load(store.parameters(), state);
}

}  // namespace ravnest::pipeline
