#include "ravnest/worker/staging.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace ravnest::worker {
namespace {

using at::Tensor;

// 64 MiB; a tensor that is larger makes it as large as itself.
constexpr std::int64_t kBlockElements = 16 << 20;

}  // namespace

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
  if (used_ == 0) return;
  const c10::impl::VirtualGuardImpl streams(device_.type());
  streams.synchronizeStream(streams.getStream(device_));
  for (const auto& [place, to] : fetched_)
    std::ranges::copy_n(place.const_data_ptr<float>(), std::ssize(to), to.data());
  fetched_.clear();
  used_ = 0;
}

Tensor Staging::take_place(std::int64_t elements, c10::Device device) {
  if (!block_.defined() || used_ + elements > block_.numel()) finish();
  if (!block_.defined() || elements > block_.numel()) {
    block_ =
        at::empty({std::max(elements, kBlockElements)}, at::device(at::kCPU).dtype(at::kFloat).pinned_memory(true));
  }
  device_ = device;
  const Tensor place = block_.narrow(0, used_, elements);
  used_ += elements;
  return place;
}

}  // namespace ravnest::worker
