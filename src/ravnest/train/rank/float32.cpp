#include "ravnest/train/rank/float32.h"

#include <ATen/Context.h>

#include <algorithm>
#include <array>

namespace ravnest::train {
namespace {

constexpr std::array<std::string_view, 2> kNames = {"exact", "tf32"};

void allow_tf32(bool matrices, bool convolutions) {
  at::globalContext().setAllowTF32CuBLAS(matrices);
  at::globalContext().setAllowTF32CuDNN(convolutions);
}

// Asked in a way that does not throw where a script has mixed torch's old switches with its new ones.
bool is_tf32(at::Float32Op op) {
  return at::globalContext().float32Precision(at::Float32Backend::CUDA, op) == at::Float32Precision::TF32;
}

}  // namespace

Result<Float32> parse_float32(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return invalid("there is no float32 \"", name, "\"; there are exact and tf32");
  return static_cast<Float32>(found - kNames.begin());
}

std::string_view float32_name(Float32 mode) { return kNames[static_cast<std::size_t>(mode)]; }

Float32Mode::Float32Mode(Float32 mode)
    : matrices_before_(is_tf32(at::Float32Op::MATMUL)), convolutions_before_(is_tf32(at::Float32Op::CONV)) {
  allow_tf32(mode == Float32::kTf32, mode == Float32::kTf32);
}

Float32Mode::~Float32Mode() { allow_tf32(matrices_before_, convolutions_before_); }

}  // namespace ravnest::train
