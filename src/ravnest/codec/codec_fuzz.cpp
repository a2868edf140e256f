// Any bytes: decoding answers, the same by every kernel. Any floats: every kernel encodes them to the same bytes, and
// what comes back is within the bounds of codec.h and not finite where it was not.
//
// The first byte is the kind, the second the share that top-k keeps, the next two a number of elements.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "ravnest/codec/kernels.h"

namespace {

using namespace ravnest;
using namespace ravnest::codec;

void require(bool holds) {
  if (!holds) std::abort();
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

void decode_by_all(CodecKind kind, ByteSpan bytes, std::size_t elements) {
  std::vector<float> first(elements);
  const Status status = decode(kind, bytes, first);
  require(status.ok() || status.code() == Code::kCorrupt || status.code() == Code::kUnsupported);
  for (const CodecKernels& kernels : codec_kernels()) {
    std::vector<float> values(elements);
    require(decode_with(kernels, kind, bytes, values).code() == status.code());
    if (status.ok()) require(same_bits(values, first));
  }
}

double largest_of_block(std::span<const float> values, std::size_t index, std::size_t size) {
  const std::size_t start = index / size * size;
  double largest = 0;
  for (const float value : values.subspan(start, std::min(size, values.size() - start))) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  }
  return largest;
}

// For a finite number, whatever is beside it.
double bound(CodecKind kind, std::span<const float> values, std::size_t index) {
  const double magnitude = std::fabs(static_cast<double>(values[index]));
  constexpr double kArithmetic = 1 + 0x1p-14;
  switch (kind) {
    case CodecKind::kFp16: return magnitude < 65520 ? std::max(magnitude * 0x1p-11, 0x1p-25) : HUGE_VAL;
    case CodecKind::kBf16: return magnitude < 0x1.FFp127 ? std::max(magnitude * 0x1p-8, 0x1p-134) : HUGE_VAL;
    case CodecKind::kInt8: return largest_of_block(values, index, 128) / 252 * kArithmetic + 0x1p-150;
    case CodecKind::kInt4: return largest_of_block(values, index, 32) / 12 * kArithmetic + 0x1p-134;
    default: return 0;
  }
}

void there_and_back(const Codec& codec, std::span<const float> values) {
  std::vector<std::byte> first;
  for (const CodecKernels& kernels : codec_kernels()) {
    std::vector<std::byte> bytes(encoded_size(codec, values.size()));
    require(encode_with(kernels, codec, values, bytes).ok());
    if (first.empty()) first = bytes;
    require(bytes == first);
  }
  std::vector<float> back(values.size());
  require(decode(codec.kind, first, back).ok());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (codec.kind == CodecKind::kTopK) {
      require(back[i] == 0 || same_bits(std::span(back).subspan(i, 1), values.subspan(i, 1)));
    } else if (std::isfinite(values[i])) {
      require(std::fabs(static_cast<double>(back[i]) - values[i]) <= bound(codec.kind, values, i));
    } else {
      require(std::isnan(values[i]) ? std::isnan(back[i]) : back[i] == values[i]);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const auto kind = static_cast<CodecKind>(data[0] % 8);
  const double keep = (data[1] + 1) / 256.0;
  std::size_t elements = data[2] + 256U * data[3];
  const ByteSpan bytes = std::as_bytes(std::span(data, size)).subspan(4);
  decode_by_all(kind, bytes, elements);
  // A number that fits, so that sizes alone do not end it.
  const Codec codec{kind, keep};
  for (elements = 0; kind < CodecKind::kTopK && encoded_size(codec, elements + 1) <= bytes.size();) ++elements;
  if (kind < CodecKind::kTopK) decode_by_all(kind, bytes.first(encoded_size(codec, elements)), elements);
  if (kind <= CodecKind::kTopK) {
    std::vector<float> values(bytes.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    there_and_back(codec, values);
  }
  return 0;
}
