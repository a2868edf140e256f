// Any bytes: decoding answers, and what is decoded can be encoded again within the bounds. Any floats: encoding
// succeeds and what comes back is finite where it was, not finite where it was not, and the same by every kernel.
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

#include "ravnest/wire/codec_kernels.h"

namespace {

using namespace ravnest;
using namespace ravnest::wire;

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
      require(back[i] == 0 || std::memcmp(&back[i], &values[i], sizeof(float)) == 0);
    } else if (std::isnan(values[i])) {
      require(std::isnan(back[i]));
    } else if (std::isinf(values[i])) {
      require(back[i] == values[i]);
    } else if (codec.kind == CodecKind::kInt8 || codec.kind == CodecKind::kInt4) {
      const std::size_t size = codec.kind == CodecKind::kInt8 ? 128 : 32;
      const std::size_t start = i / size * size;
      double largest = 0;
      for (const float value : values.subspan(start, std::min(size, values.size() - start))) {
        if (std::isfinite(value)) largest = std::max(largest, std::fabs(static_cast<double>(value)));
      }
      const double steps = codec.kind == CodecKind::kInt8 ? 252 : 12;
      require(std::fabs(static_cast<double>(back[i]) - values[i]) <= largest / steps * (1 + 0x1p-14) + 0x1p-134);
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
