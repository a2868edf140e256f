// Values of tensors on their way between a device and this host, as floats.
//
// Those of a GPU go through pinned memory, several tensors at a time. Tensors of the CPU are read and given as they
// are. Of one stage, on one device, used by the thread that computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "ravnest/graph/run/pinned_memory.h"

namespace ravnest::worker {

class Staging {
 public:
  // `to`, of the tensor's size, is filled when `finish` returns.
  void fetch(const at::Tensor& tensor, std::span<float> to);
  // The values of a tensor of this host, on the device.
  at::Tensor send(const at::Tensor& values, c10::Device device);
  // Waits for all copies; frees no memory.
  void finish();

 private:
  struct Fetched {
    at::Tensor place;
    std::span<float> to;
  };
  // Pinned memory that no copy uses.
  at::Tensor take_place(std::int64_t elements, c10::Device device);

  graph::PinnedMemory pinned_;
  c10::Device device_ = c10::kCPU;  // that the copies under way are of
  std::vector<Fetched> fetched_;
};

}  // namespace ravnest::worker
