// The outer optimizer: what clusters make of the mean of their weights.
//
// Between two rounds every cluster trains on its own, maybe for long. The difference between what all held after the
// last round and the mean of what they come with is taken for a gradient, and momentum may carry it further
// (Nesterov's). All clusters compute the same from the same bits, so what they hold stays the same. It also is what
// lossy compression works on: a difference is small, and what is lost of it comes with the next one.
// Of one stage, by averaging group. Not thread-safe; one owner.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::average {

struct OuterOptimizerOptions {
  bool nesterov = false;  // without: the mean itself
  double momentum = 0.9;
  double rate = 0.7;

  bool operator==(const OuterOptimizerOptions&) const = default;
};

class OuterOptimizer {
 public:
  using AveragingGroups = std::vector<std::vector<float>>;

  // `held` is what all clusters begin with, or go on with, then with the momentum of before.
  OuterOptimizer(OuterOptimizerOptions options, AveragingGroups held, AveragingGroups momentum = {});

  // What was made of the weights since the last round.
  AveragingGroups difference(AveragingGroups weights) const;
  // A round holds: the mean of all differences. Returns what all clusters hold now.
  const AveragingGroups& take_mean_difference(const AveragingGroups& mean);

  // For clusters that come in later: a round of the weights themselves, and of the momentum, which is empty before the
  // first step.
  AveragingGroups momentum() const;
  const AveragingGroups& take_mean(AveragingGroups mean, AveragingGroups momentum);

 private:
  OuterOptimizerOptions options_;
  AveragingGroups held_;
  AveragingGroups momentum_;
};

}  // namespace ravnest::average
