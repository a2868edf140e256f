// The elements of largest magnitude, as they are; the rest is zero.
//
// Elements count in groups of 65536, so that two bytes say where one lies in its group. An encoding is
//   u32 x groups    how many of each group are kept
//   u16 x kept      their places in their groups, increasing within each
//   f32 x kept      their values, bit for bit
// of which the number kept follows from the size. Of equal magnitudes, those that come first are kept.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"
#include "ravnest/codec/kernels.h"

namespace ravnest::codec {

// At least one, where there is any.
std::size_t topk_count(double keep, std::size_t elements);
std::size_t topk_size(std::size_t elements, std::size_t kept);
// How many an encoding of that size keeps; none where no encoding of so many elements has it.
std::optional<std::size_t> topk_kept(std::size_t elements, std::size_t bytes);

// `bytes` has room for topk_size(values.size(), kept).
void encode_topk(const CodecKernels& kernels, std::span<const float> values, std::size_t kept, std::byte* bytes);
// kCorrupt unless `in` is such an encoding of out.size() elements; nothing is written where it can't be one by its
// size.
Status decode_topk(ByteSpan in, std::span<float> out);
// Sets to zero the elements of `values` that the encoding `in` keeps: what is left is what it dropped.
Status clear_kept(ByteSpan in, std::span<float> values);

}  // namespace ravnest::codec
