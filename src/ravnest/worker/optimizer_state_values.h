// What an optimizer keeps for parameters (moments, counters), as floats that clusters can average.
//
// For each parameter and each thing that the optimizer may keep: 1 and its values, or 0 and zeros where nothing is kept
// yet. So all clusters have as many, and the mean over those that keep something is the mean of the values divided by
// the mean of the ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/worker/staging.h"

namespace ravnest::worker {

// Of these parameters, by their indices.
std::vector<float> optimizer_state_values(const optim::Optimizer& optimizer, std::span<const at::Tensor> parameters,
                                          std::span<const std::size_t> indices, Staging& staging);

// Into the optimizer's state: `mean` in place of `given`, or where it has made steps since the difference of the two.
void take_optimizer_state(optim::OptimizerState& state, std::span<const optim::StateName> names,
                          std::span<const float> given, std::span<const float> mean, bool unchanged,
                          std::span<const at::Tensor> parameters, std::span<const std::size_t> indices);

}  // namespace ravnest::worker
