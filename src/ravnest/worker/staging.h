// Values of tensors on their way between a device and this host, as floats.
//
// Those of a GPU go through a block of pinned memory, which is kept: the GPU copies to and from it by itself, several
// tensors at a time, while ordinary memory would hold up training. Tensors of the CPU are read and given as they are.
// Of one stage, on one device, used by the thread that computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

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
  // A part of the block that no copy uses.
  at::Tensor take_place(std::int64_t elements, c10::Device device);

  at::Tensor block_;
  c10::Device device_ = c10::kCPU;  // that the copies under way are of
  std::int64_t used_ = 0;
  std::vector<Fetched> fetched_;
};

}  // namespace ravnest::worker
