// Which GPU is a rank's own.
#pragma once

#include <c10/core/Device.h>

#include "ravnest/base/status.h"
#include "ravnest/strategy/launch/place.h"

namespace ravnest::train {

// Ranks of one machine have a GPU each: where `wanted` says only "cuda", the one with the number of the rank among
// them. kInvalid where several would have one GPU, or where nobody can say which of `gpus`, those that this process
// sees, is this rank's.
Result<c10::Device> rank_device(c10::Device wanted, const strategy::Place& place, int gpus);
// The same with those that torch finds.
Result<c10::Device> rank_device(c10::Device wanted, const strategy::Place& place);

}  // namespace ravnest::train
