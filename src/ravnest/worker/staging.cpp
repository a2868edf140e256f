#include "ravnest/worker/staging.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace ravnest::worker {

using at::Tensor;

void Staging::fetch(const Tensor& tensor, std::span<float> to) {
  TORCH_CHECK(to.size() == static_cast<std::size_t>(tensor.numel()), "a tensor has ", tensor.numel(), " values, not ",
              to.size());
  if (tensor.is_cpu()) {
    at::from_blob(to.data(), tensor.sizes(), at::kFloat).copy_(tensor);
    return;
  }
  const Tensor place = take_place(tensor.numel(), tensor.device());
  place.view(tensor.sizes()).copy_(tensor.to(at::kFloat), /*non_blocking=*/true);
  fetched_.push_back({place, to});
}

Tensor Staging::send(const Tensor& values, c10::Device device) {
  if (device.is_cpu()) return values;
  const Tensor place = take_place(values.numel(), device).view(values.sizes());
  place.copy_(values);
  return place.to(device, /*non_blocking=*/true);
}

void Staging::finish() {
  if (pinned_.empty()) return;
  const c10::impl::VirtualGuardImpl streams(device_.type());
  streams.synchronizeStream(streams.getStream(device_));
  for (const auto& [place, to] : fetched_)
    std::ranges::copy_n(place.const_data_ptr<float>(), std::ssize(to), to.data());
  fetched_.clear();
  pinned_.clear();
}

Tensor Staging::take_place(std::int64_t elements, c10::Device device) {
  // Waiting for the copies costs less than more pinned memory.
  if (!pinned_.has_room(elements, at::kFloat)) finish();
  device_ = device;
  return pinned_.take(elements, at::kFloat);
}

}  // namespace ravnest::worker
