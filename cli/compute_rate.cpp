#include "compute_rate.h"

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ravnest {
namespace {

// One operator call and the floating-point operations in it, a multiply and an add counted as two.
struct Work {
  double flops = 0;
  std::function<at::Tensor()> run;
};

// The numbers are ones: their values do not change how long the operators take, and denormals would.
at::Tensor ones(at::IntArrayRef sizes, const at::Device& device) {
  return at::ones(sizes, at::TensorOptions().dtype(at::kFloat).device(device));
}

std::vector<Work> matmuls(const at::Device& device) {
  std::vector<Work> works;
  for (const std::int64_t size : {std::int64_t{512}, std::int64_t{device.is_cpu() ? 1024 : 4096}}) {
    const at::Tensor left = ones({size, size}, device);
    const at::Tensor right = ones({size, size}, device);
    const auto n = static_cast<double>(size);
    works.push_back({2 * n * n * n, [left, right] { return at::mm(left, right); }});
  }
  return works;
}

std::vector<Work> convolutions(const at::Device& device) {
  struct Size {
    std::int64_t channels, image;
  };
  std::vector<Work> works;
  const std::int64_t batch = device.is_cpu() ? 8 : 128;
  for (const auto& [channels, image] : {Size{64, 56}, Size{256, 14}}) {
    const at::Tensor input = ones({batch, channels, image, image}, device);
    const at::Tensor weight = ones({channels, channels, 3, 3}, device);
    const double flops = 2.0 * 9 * static_cast<double>(batch * channels * channels * image * image);
    works.push_back({flops, [input, weight] { return at::conv2d(input, weight, {}, 1, 1); }});
  }
  return works;
}

void wait_for(const at::Device& device) {
  if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.has_index() ? device.index() : 0);
}

// A round is one run of each work; its rate is that of the whole round.
double median_gflops(const std::vector<Work>& works, const at::Device& device, Duration time) {
  const SystemClock clock;
  double flops = 0;
  for (const Work& work : works) {
    flops += work.flops;
    work.run();
  }
  wait_for(device);
  std::vector<double> rates;
  const TimePoint end = clock.now() + time;
  do {
    const TimePoint start = clock.now();
    for (const Work& work : works) work.run();
    wait_for(device);
    rates.push_back(flops / static_cast<double>(std::max<Duration::rep>((clock.now() - start).count(), 1)));
  } while (clock.now() < end);
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

Result<at::Device> usable_device(const std::string& name) {
  try {
    const at::Device device(name);
    if (device.is_cpu()) return device;
    const auto accelerator = at::accelerator::getAccelerator();
    if (!accelerator || *accelerator != device.type()) {
      return invalid("this torch has no ", device.type(), " device: it was built for ",
                     accelerator ? text(*accelerator) : std::string("the CPU only"));
    }
    const int count = at::accelerator::deviceCount();
    const int index = device.has_index() ? device.index() : 0;
    if (index >= count) return invalid("there is no device ", name, ": this machine has ", count, " of that kind");
    return device;
  } catch (const c10::Error& error) {
    return invalid("\"", name, "\" is not a device: ", error.what_without_backtrace());
  }
}

}  // namespace

double ComputeRate::gflops() const { return std::sqrt(matmul_gflops * convolution_gflops); }

Result<ComputeRate> measure_compute(const ComputeOptions& options) {
  const auto device = usable_device(options.device);
  if (!device.ok()) return device.status();
  if (options.threads > 0) at::set_num_threads(options.threads);
  const c10::InferenceMode no_autograd;
  try {
    const double matmul = median_gflops(matmuls(*device), *device, options.time / 2);
    const double convolution = median_gflops(convolutions(*device), *device, options.time / 2);
    return ComputeRate{matmul, convolution, at::get_num_threads()};
  } catch (const c10::Error& error) {
    return unavailable("torch failed on ", options.device, ": ", error.what_without_backtrace());
  }
}

Result<DeviceMemory> device_memory(const std::string& name) {
  const auto device = usable_device(name);
  if (!device.ok()) return device.status();
  if (device->is_cpu()) return invalid("the memory of the CPU is the machine's");
  try {
    at::empty({1}, at::TensorOptions().device(*device));  // Wakes the device: before, it has no context to ask.
    const auto [free_bytes, total_bytes] = at::accelerator::getMemoryInfo(device->has_index() ? device->index() : 0);
    return DeviceMemory{free_bytes, total_bytes};
  } catch (const c10::Error& error) {
    return unavailable("torch cannot tell the memory of ", name, ": ", error.what_without_backtrace());
  }
}

}  // namespace ravnest
