// Tensors that are hard on a codec, for the tests and the fuzz target of this folder.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace ravnest::codec {

struct CodecSample {
  std::string name;
  std::vector<float> values;
};

// All finite.
inline std::vector<CodecSample> finite_samples() {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  const float largest = std::numeric_limits<float>::max();
  std::vector<CodecSample> samples;
  const auto add = [&](const char* name, std::size_t count, auto&& make) {
    std::vector<float> values(count);
    for (float& value : values) value = make();
    samples.push_back({name, std::move(values)});
  };
  const auto bits_below = [&](std::uint32_t limit) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(random() % limit) | (random() % 2 == 0 ? 0x80000000U : 0));
  };
  for (const std::size_t count : {0UL, 1UL, 2UL, 7UL, 8UL, 31UL, 32UL, 33UL, 127UL, 128UL, 129UL, 255UL, 1000UL}) {
    add("normal", count, [&] { return normal(random); });
  }
  add("zeros", 300, [] { return 0.0F; });
  add("equal", 300, [] { return -1.25F; });
  add("any finite bits", 4099, [&] { return bits_below(0x7F800000); });
  add("subnormal", 4099, [&] { return bits_below(0x00800000); });
  // Scales around the smallest numbers there are.
  for (std::uint32_t limit = 2; limit < 0x08000000; limit = limit * 3 / 2 + 1) {
    add("near zero", 160, [&] { return bits_below(limit); });
  }
  add("near the largest", 512,
      [&] { return std::bit_cast<float>(static_cast<std::uint32_t>(0x7F7FFFFF - random() % 64)); });
  add("the largest", 130, [&] { return random() % 2 == 0 ? largest : -largest; });
  add("half way between codes", 512, [&] { return static_cast<float>(random() % 255) - 127 + 0.5F; });
  // What only ties decide, and their neighbours, for fp16 and for bf16.
  for (const std::uint32_t tie : {0x1000U, 0x8000U}) {
    add("half way between halves", 8192, [&, tie] {
      const auto bits = std::bit_cast<std::uint32_t>(normal(random)) & ~(2 * tie - 1);
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits + tie + random() % 3 - 1));
    });
  }
  add("around the largest half", 512, [&] { return 65504 + static_cast<float>(random() % 64) / 2; });
  add("one outlier", 256, [&, i = 0]() mutable { return i++ % 128 == 5 ? 1e30F : normal(random); });
  add("wide", 1024, [&] { return normal(random) * std::exp(8 * normal(random)); });
  return samples;
}

// Each finite sample with NaN and infinities strewn in.
inline std::vector<CodecSample> non_finite_samples() {
  std::mt19937 random(13);
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> strange = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                                      -std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7F800001U)};
  std::vector<CodecSample> samples = finite_samples();
  for (CodecSample& sample : samples) {
    sample.name += " and not finite";
    for (float& value : sample.values) {
      if (random() % 20 == 0) value = strange[random() % strange.size()];
    }
  }
  samples.push_back({"only not finite", {}});
  for (int i = 0; i < 200; ++i) samples.back().values.push_back(strange[random() % strange.size()]);
  return samples;
}

}  // namespace ravnest::codec
