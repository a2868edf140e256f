#include "ravnest/strategy/shared_buffers.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <map>
#include <utility>

namespace ravnest::strategy {

SharedBuffers::SharedBuffers(const std::vector<at::Tensor>& tensors) {
  std::map<at::ScalarType, Flat> by_type;
  for (const at::Tensor& tensor : tensors) by_type[tensor.scalar_type()].tensors.push_back(tensor.detach());
  for (auto& [type, flat] : by_type) {
    std::int64_t elements = 0;
    for (const at::Tensor& tensor : flat.tensors) elements += tensor.numel();
    if (elements == 0) continue;
    flat.values = at::empty({elements}, flat.tensors.front().options());
    flats_.push_back(std::move(flat));
  }
}

void SharedBuffers::send(Communicator& communicator) {
  const at::NoGradGuard without_record;
  takes_ = communicator.rank() != 0;
  for (Flat& flat : flats_) {
    std::int64_t offset = 0;
    for (const at::Tensor& tensor : flat.tensors) {
      if (!takes_) flat.values.narrow(0, offset, tensor.numel()).view(tensor.sizes()).copy_(tensor);
      offset += tensor.numel();
    }
    flat.pending = communicator.broadcast(flat.values, 0);
  }
}

Status SharedBuffers::wait(const Waiter& wait) {
  const at::NoGradGuard without_record;
  for (Flat& flat : flats_) {
    if (!flat.pending) continue;
    const std::shared_ptr<Pending> pending = std::exchange(flat.pending, nullptr);
    if (Status arrived = wait(*pending); !arrived.ok()) return arrived;
    if (!takes_) continue;
    std::int64_t offset = 0;
    for (const at::Tensor& tensor : flat.tensors) {
      tensor.copy_(flat.values.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
      offset += tensor.numel();
    }
  }
  return {};
}

}  // namespace ravnest::strategy
