// Float32 tensors as fewer bytes, and back: what travels between machines and what that costs in precision.
//
// The size of an encoding depends on the codec and the number of elements alone, so buffers can be made before there is
// anything to put in. Every encoding but top-k's is local: encoding a tensor in pieces of a multiple of 128 elements
// and joining the bytes gives the bytes of the whole. docs/wire-codecs.md has them byte by byte.
//
// What comes back for a value x, where `largest` is the largest finite magnitude in the block of x:
//   none    x, bit for bit
//   fp16    within |x| 2^-11, and 2^-25 where that is more; an infinity from 65520 on, as torch's half() gives
//   bf16    within |x| 2^-8, and 2^-134 where that is more; an infinity from about 3.396e38 on, as bfloat16() gives
//   int8    within largest / 254 + 2^-150, in blocks of 128; largest / 252 in a block with a NaN or an infinity
//   int4    within largest / 14 + 2^-134, in blocks of 32; largest / 12 in a block with a NaN or an infinity
//   topk    x, bit for bit, or 0 if |x| is not among the largest; nothing dropped is larger than anything kept
// The bounds of int8 and int4 hold up to a factor of 1 + 2^-14 for the arithmetic in floats; these two also forget the
// sign of zero, and make an infinity of nothing finite.
// A NaN stays a NaN and an infinity stays that infinity, in place, whatever the codec; top-k counts both as largest and
// so may drop one only for another.
//
// Pure functions, safe from any thread. All processors give the same bytes; they count on rounding to nearest, and
// where a thread flushes subnormal numbers to zero, int8 and int4 lose those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::codec {

// The numbers are stable: they are sent.
enum class CodecKind : std::uint8_t { kNone = 0, kFp16 = 1, kBf16 = 2, kInt8 = 3, kInt4 = 4, kTopK = 5 };
// The last of them, for those who read one.
constexpr CodecKind highest(CodecKind) { return CodecKind::kTopK; }

struct Codec {
  CodecKind kind = CodecKind::kNone;
  double keep = 1;  // of top-k: the share of elements that is kept, above 0 and at most 1

  friend bool operator==(const Codec&, const Codec&) = default;
};

// What users mean by compression that is simply on or off: fp16, or none.
constexpr Codec codec_for(bool compression) { return {.kind = compression ? CodecKind::kFp16 : CodecKind::kNone}; }

// Reads "none", "fp16", "bf16", "int8", "int4", or "topk:SHARE" such as "topk:0.01"; kInvalid for anything else.
Result<Codec> parse_codec(std::string_view written);

// Without the share of top-k: "topk".
std::string_view name(CodecKind kind);

// As parse_codec reads it.
std::string to_string(const Codec& codec);
std::ostream& operator<<(std::ostream& out, const Codec& codec);

// How many bytes `encode` writes for that many elements.
std::size_t encoded_size(const Codec& codec, std::size_t elements);

// Whether an encoding of that many elements may have so many bytes: for those who are told both, before they make room.
bool is_encoded_size(CodecKind kind, std::size_t elements, std::size_t bytes);

// Bytes per byte of float32, for long tensors.
double encoded_share(const Codec& codec);

// kInvalid, with nothing written, unless `out` has exactly the encoded size and `codec` is one that parse_codec gives.
Status encode(const Codec& codec, std::span<const float> values, std::span<std::byte> out);

// Trusts nothing: whatever the bytes, it reads and writes only what it was given. kCorrupt if `in` is not an encoding
// of out.size() elements, kUnsupported for a kind that this version does not know; `out` then holds nothing of use.
Status decode(CodecKind kind, ByteSpan in, std::span<float> out);

}  // namespace ravnest::codec
