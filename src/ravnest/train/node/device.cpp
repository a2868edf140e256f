#include "ravnest/train/node/device.h"

#include <ATen/Context.h>

namespace ravnest::train {

Status check_device(c10::Device device) {
  if (!device.is_cuda()) return {};
  const std::size_t count = at::getNumGPUs();
  const auto index = static_cast<std::size_t>(device.has_index() ? device.index() : 0);
  if (index < count) return {};
  return unavailable("there is no device ", device.str(), " on this machine: torch finds ", count,
                     " GPUs; choose another with ", "device, or install a torch with CUDA");
}

}  // namespace ravnest::train
