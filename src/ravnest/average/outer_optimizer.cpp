#include "ravnest/average/outer_optimizer.h"

#include <algorithm>
#include <utility>

namespace ravnest::average {

OuterOptimizer::OuterOptimizer(OuterOptimizerOptions options, AveragingGroups held, AveragingGroups momentum)
    : options_(options), held_(std::move(held)) {
  const bool fits = std::ranges::equal(momentum, held_, {}, &std::vector<float>::size, &std::vector<float>::size);
  if (options_.nesterov && fits) momentum_ = std::move(momentum);
}

OuterOptimizer::AveragingGroups OuterOptimizer::difference(AveragingGroups weights) const {
  for (std::size_t s = 0; s < weights.size(); ++s) {
    for (std::size_t i = 0; i < weights[s].size(); ++i) weights[s][i] -= held_[s][i];
  }
  return weights;
}

const OuterOptimizer::AveragingGroups& OuterOptimizer::take_mean_difference(const AveragingGroups& mean) {
  if (options_.nesterov && momentum_.empty()) momentum_ = momentum();
  const auto momentum = static_cast<float>(options_.momentum);
  const auto rate = static_cast<float>(options_.rate);
  for (std::size_t s = 0; s < mean.size(); ++s) {
    for (std::size_t i = 0; i < mean[s].size(); ++i) {
      const float difference = mean[s][i];
      if (!options_.nesterov) {
        held_[s][i] += difference;
        continue;
      }
      float& carried = momentum_[s][i];
      carried = momentum * carried + difference;
      held_[s][i] += rate * (difference + momentum * carried);
    }
  }
  return held_;
}

OuterOptimizer::AveragingGroups OuterOptimizer::momentum() const {
  if (!momentum_.empty() || !options_.nesterov) return momentum_;
  AveragingGroups zeros;
  for (const std::vector<float>& averaging_group : held_) zeros.emplace_back(averaging_group.size());
  return zeros;
}

const OuterOptimizer::AveragingGroups& OuterOptimizer::take_mean(AveragingGroups mean, AveragingGroups momentum) {
  held_ = std::move(mean);
  momentum_ = std::move(momentum);
  return held_;
}

}  // namespace ravnest::average
