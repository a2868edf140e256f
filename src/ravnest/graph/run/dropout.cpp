#include "ravnest/graph/run/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ravnest::graph {
namespace {

// Philox 4x32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), in eight lanes that
// the compiler turns into vector instructions. One block is 4 x 8 numbers.
constexpr int kLanes = 8;
constexpr int kBlock = 4 * kLanes;
constexpr int kRounds = 10;
using Lane = std::array<std::uint32_t, kLanes>;

// `threshold` is how many of the 2^32 numbers are kept, less one.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
void mask_blocks(float* mask, std::int64_t first_block, std::int64_t last_block, std::uint32_t threshold, float scale,
                 std::uint64_t key) {
  for (std::int64_t block = first_block; block < last_block; ++block, mask += kBlock) {
    Lane c0;
    Lane c1;
    Lane c2{};
    Lane c3{};
    for (int i = 0; i < kLanes; ++i) {
      c0[i] = static_cast<std::uint32_t>(block) * kLanes + static_cast<std::uint32_t>(i);
      c1[i] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(block) >> 29);
    }
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < kLanes; ++i) {
        const std::uint64_t a = std::uint64_t{0xD2511F53} * c0[i];
        const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c2[i];
        c0[i] = static_cast<std::uint32_t>(b >> 32) ^ c1[i] ^ k0;
        c1[i] = static_cast<std::uint32_t>(b);
        c2[i] = static_cast<std::uint32_t>(a >> 32) ^ c3[i] ^ k1;
        c3[i] = static_cast<std::uint32_t>(a);
      }
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    for (int i = 0; i < kLanes; ++i) {
      mask[i] = c0[i] <= threshold ? scale : 0.0F;
      mask[kLanes + i] = c1[i] <= threshold ? scale : 0.0F;
      mask[2 * kLanes + i] = c2[i] <= threshold ? scale : 0.0F;
      mask[3 * kLanes + i] = c3[i] <= threshold ? scale : 0.0F;
    }
  }
}

}  // namespace

void fill_dropout_mask(float* mask, std::int64_t count, double p, float scale, std::uint64_t key) {
  const double kept = std::round((1.0 - p) * 4294967296.0);
  if (kept < 1.0) {
    std::fill_n(mask, count, 0.0F);
    return;
  }
  const auto threshold = static_cast<std::uint32_t>(kept - 1.0);
  const std::int64_t whole = count / kBlock;
  at::parallel_for(0, whole, at::internal::GRAIN_SIZE / kBlock, [&](std::int64_t begin, std::int64_t end) {
    mask_blocks(mask + begin * kBlock, begin, end, threshold, scale, key);
  });
  if (whole * kBlock < count) {
    std::array<float, kBlock> rest;
    mask_blocks(rest.data(), whole, whole + 1, threshold, scale, key);
    std::copy_n(rest.data(), count - whole * kBlock, mask + whole * kBlock);
  }
}

at::Tensor keyed_dropout(const at::Tensor& input, double p, std::uint64_t key) {
  if (p == 0 || input.numel() == 0) return input;
  const float scale = p < 1 ? static_cast<float>(1.0 / (1.0 - p)) : 0.0F;
  // Contiguous, whatever the input's strides: they may differ between a stage and the whole model.
  at::Tensor mask = at::empty(input.sizes(), input.options().dtype(at::kFloat).requires_grad(false));
  fill_dropout_mask(mask.mutable_data_ptr<float>(), mask.numel(), p, scale, key);
  return input.mul(input.scalar_type() == at::kFloat ? mask : mask.to(input.scalar_type()));
}

}  // namespace ravnest::graph
