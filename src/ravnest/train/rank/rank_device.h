// Which GPU a rank computes on.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <string>

#include "ravnest/base/status.h"
#include "ravnest/strategy/place/place.h"
#include "ravnest/train/rank/backend.h"

namespace ravnest::train {

struct DeviceQuestion {
  c10::Device wanted = c10::kCPU;  // "cuda" for all ranks of a machine stands for one each
  Backend backend = Backend::kAuto;
  std::size_t gpus = 0;     // that this process finds
  bool are_chosen = false;  // CUDA_VISIBLE_DEVICES is set: the one that it finds may be another one for each rank
};

// Of the ranks of a machine each has its own GPU: the one with the rank's number among them, unless the launcher shows
// it no other. With backend = "ring" they may share them. kInvalid where there are more ranks than GPUs, and where
// nobody can say which of several GPUs is this rank's.
Result<c10::Device> rank_device(const DeviceQuestion& question, const strategy::Place& place);

// What tells the GPU from all others, whoever counts them how: its UUID as the driver knows it, otherwise this machine
// and the device's number. "" for the CPU.
std::string gpu_identity(c10::Device device);

}  // namespace ravnest::train
