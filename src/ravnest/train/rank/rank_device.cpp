#include "ravnest/train/rank/rank_device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace ravnest::train {

Result<c10::Device> rank_device(c10::Device wanted, const strategy::Place& place, int gpus) {
  if (wanted.is_cpu() || place.has_own_gpu) return wanted;
  if (wanted.has_index()) {
    if (place.local_world == 1) return wanted;
    return invalid("the device ", wanted.str(), " is one GPU, and ", place.local_world,
                   " ranks on this machine need one each: \"", c10::DeviceTypeName(wanted.type(), true),
                   "\" gives each its own");
  }
  if (place.local_rank && place.local_world == 1) return wanted;
  if (place.local_rank) return c10::Device(wanted.type(), static_cast<c10::DeviceIndex>(*place.local_rank));
  if (gpus <= 1) return wanted;
  return invalid(
      "which of the ", gpus, " GPUs here is rank ", place.rank.value_or(0),
      "'s? RANK does not say it: set LOCAL_RANK to its number on this machine, or choose a device such as \"",
      wanted.str(), ":0\"");
}

Result<c10::Device> rank_device(c10::Device wanted, const strategy::Place& place) {
  const bool has_gpus = !wanted.is_cpu() && c10::impl::hasDeviceGuardImpl(wanted.type());
  return rank_device(wanted, place, has_gpus ? c10::impl::getDeviceGuardImpl(wanted.type())->deviceCount() : 0);
}

}  // namespace ravnest::train
