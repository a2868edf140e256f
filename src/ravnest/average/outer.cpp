#include "ravnest/average/outer.h"

#include <utility>

namespace ravnest::average {

Outer::Strands Outer::difference(Strands weights) const {
  for (std::size_t s = 0; s < weights.size(); ++s) {
    for (std::size_t i = 0; i < weights[s].size(); ++i) weights[s][i] -= held_[s][i];
  }
  return weights;
}

const Outer::Strands& Outer::take_mean_difference(const Strands& mean) {
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

Outer::Strands Outer::momentum() const {
  if (!momentum_.empty() || !options_.nesterov) return momentum_;
  Strands zeros;
  for (const std::vector<float>& strand : held_) zeros.emplace_back(strand.size());
  return zeros;
}

const Outer::Strands& Outer::take_mean(Strands mean, Strands momentum) {
  held_ = std::move(mean);
  momentum_ = std::move(momentum);
  return held_;
}

}  // namespace ravnest::average
