// How fast this machine computes, measured with the operators that training spends its time in. Only the source sees
// torch.
#pragma once

#include <cstdint>
#include <string>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"

namespace ravnest {

struct ComputeOptions {
  std::string device = "cpu";               // as torch names it: "cpu", "cuda", "cuda:1"
  int threads = 0;                          // on the CPU; 0: as many as torch takes by itself
  Duration time = std::chrono::seconds(1);  // for both measurements together
};

struct ComputeRate {
  double matmul_gflops = 0;       // fp32 products of square matrices of 512 and 1024 (4096 on a GPU)
  double convolution_gflops = 0;  // fp32 3x3 convolutions, forward, of 64 channels on 56x56 and 256 on 14x14
  int threads = 0;

  // The geometric mean: a model is some of both, and neither may hide that the other is slow.
  double gflops() const;
};

// Each rate is the median over rounds of one run of each of its sizes, after a round that does not count. fp32 as torch
// has it by default: on some GPUs its convolutions use TF32, in training as here. Sets torch's number of threads for
// the process. kInvalid where the device is not one of this torch and machine. Takes about `time`, and longer where
// even one round takes longer. Not to be called from two threads at once.
Result<ComputeRate> measure_compute(const ComputeOptions& options);

struct DeviceMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// The memory of a GPU that a process may still take. kInvalid for the CPU and for devices that are not there.
Result<DeviceMemory> device_memory(const std::string& device);

}  // namespace ravnest
