// The largest elements of a tensor, found without sorting it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ravnest/codec/kernels.h"

namespace ravnest::codec {

// Which elements are the `count` largest by magnitude: all above `bits`, and of those equal to it the first `equal`.
// Magnitudes are the bits of the floats without the sign, so infinity is above all numbers and NaN above that.
struct LargestMagnitudes {
  std::uint32_t bits = 0;
  std::size_t equal = 0;
};

// In time linear in the number of values, whatever they are. `count` is from 1 to values.size().
LargestMagnitudes largest_magnitudes(const CodecKernels& kernels, std::span<const float> values, std::size_t count);

}  // namespace ravnest::codec
