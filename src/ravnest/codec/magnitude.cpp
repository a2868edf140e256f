#include "ravnest/codec/magnitude.h"

#include <array>
#include <bit>

#include "ravnest/codec/half.h"

namespace ravnest::codec {
namespace {

// The 31 bits are decided from the top, in steps of 11, 10 and 10: each step counts the values by their next bits,
// among those that agree with what is decided, and finds where the count from above passes `count`.
constexpr int kFirstShift = 20;
constexpr int kStepBits = 10;
using Histogram = std::array<std::size_t, 2048>;

Histogram first_histogram(std::span<const float> values) {
  // Neighbours are often alike. Four tables in turn keep one count from waiting for the one before.
  std::array<Histogram, 4> tables{};
  std::size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    for (std::size_t t = 0; t < 4; ++t) ++tables[t][magnitude_bits(values[i + t]) >> kFirstShift];
  }
  for (; i < values.size(); ++i) ++tables[0][magnitude_bits(values[i]) >> kFirstShift];
  for (std::size_t bin = 0; bin < tables[0].size(); ++bin) {
    tables[0][bin] += tables[1][bin] + tables[2][bin] + tables[3][bin];
  }
  return tables[0];
}

Histogram next_histogram(const CodecKernels& kernels, std::span<const float> values, std::uint32_t least,
                         std::uint32_t most, int shift) {
  Histogram histogram{};
  const auto count = [&](float value) { ++histogram[(magnitude_bits(value) - least) >> shift]; };
  std::size_t i = 0;
  for (; i + 32 <= values.size(); i += 32) {
    for (std::uint32_t mask = kernels.magnitudes_within(&values[i], least, most); mask != 0; mask &= mask - 1) {
      count(values[i + static_cast<std::size_t>(std::countr_zero(mask))]);
    }
  }
  for (; i < values.size(); ++i) {
    const std::uint32_t bits = magnitude_bits(values[i]);
    if (bits >= least && bits <= most) count(values[i]);
  }
  return histogram;
}

// The bin that holds the `count`-th from above; `count` becomes how many of that bin are wanted.
std::uint32_t bin_of(const Histogram& histogram, std::size_t& count) {
  std::size_t bin = histogram.size() - 1;
  while (histogram[bin] < count) count -= histogram[bin--];
  return static_cast<std::uint32_t>(bin);
}

}  // namespace

std::uint32_t magnitudes_within_portable(const float* values, std::uint32_t least, std::uint32_t most) {
  std::uint32_t mask = 0;
  for (unsigned i = 0; i < 32; ++i) {
    const bool within = magnitude_bits(values[i]) - least <= most - least;
    mask |= static_cast<std::uint32_t>(within) << i;
  }
  return mask;
}

LargestMagnitudes largest_magnitudes(const CodecKernels& kernels, std::span<const float> values, std::size_t count) {
  std::uint32_t least = bin_of(first_histogram(values), count) << kFirstShift;
  for (int shift = kFirstShift; shift > 0; shift -= kStepBits) {
    const std::uint32_t most = least + (1U << shift) - 1;
    least += bin_of(next_histogram(kernels, values, least, most, shift - kStepBits), count) << (shift - kStepBits);
  }
  return {.bits = least, .equal = count};
}

}  // namespace ravnest::codec
