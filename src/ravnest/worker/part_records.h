// What a part of a checkpoint has beside weights and the optimizer's state, whoever holds it: gradients that wait for
// their update, and what a criterion keeps. Free functions, for the thread that computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/assemble.h"
#include "ravnest/checkpoint/part_file.h"
#include "ravnest/checkpoint/state/part_state.h"

namespace ravnest::worker {

// Records of a part with what its averaging goes on with (average::CarriedState), by parameter.
inline constexpr const char* kAveragingMomentum = "averaging_momentum";
inline constexpr const char* kAveragingResiduals = "averaging_residuals";
// Of parameters of 16 bits, what all clusters hold, which they are the roundings of.
inline constexpr const char* kAveragingHeld = "averaging_held";

// What a user's function keeps beside the model, such as a criterion with a state_dict.
struct OwnState {
  // Its tensors, and a text for the rest.
  struct Captured {
    checkpoint::RecordTensors tensors;
    std::string text;
  };
  std::function<Captured()> capture = {};
  std::function<Status(const Captured& captured)> restore = {};
};

// Copies of those that are defined, each by its parameter's name.
void note_gradients(checkpoint::Part& part, std::span<const std::string> names, std::span<const at::Tensor> gradients);
// Into `gradients`, those of parameters that the part speaks of; of others nothing is changed.
Status take_gradients(const checkpoint::Part& part, std::span<const std::string> names,
                      std::span<const at::Tensor> parameters, std::span<at::Tensor> gradients);

// What a part that was selected from the whole for another plan is to have of records: what the criterion keeps, and
// gradients that wait for their update. kUnsupported where those are of tied weights.
Status take_records(const checkpoint::Whole& whole, checkpoint::Part& part);

void note_own_state(checkpoint::Part& part, const OwnState& criterion);
// Nothing where the part has none, or the criterion keeps nothing.
Status take_own_state(const checkpoint::Part& part, const OwnState& criterion);

}  // namespace ravnest::worker
