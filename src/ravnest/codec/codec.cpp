#include "ravnest/codec/codec.h"

#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "ravnest/codec/blocks.h"
#include "ravnest/codec/kernels.h"
#include "ravnest/codec/topk.h"

namespace ravnest::codec {
namespace {

constexpr std::array<std::pair<std::string_view, CodecKind>, 5> kPlainNames{{{"none", CodecKind::kNone},
                                                                             {"fp16", CodecKind::kFp16},
                                                                             {"bf16", CodecKind::kBf16},
                                                                             {"int8", CodecKind::kInt8},
                                                                             {"int4", CodecKind::kInt4}}};
constexpr std::string_view kTopKPrefix = "topk:";

bool is_share(double keep) { return keep > 0 && keep <= 1; }

const CodecKernels& fastest_codec() {
  static const CodecKernels kernels = codec_kernels().front();
  return kernels;
}

std::size_t blocks_of(std::size_t elements, std::size_t block) { return elements / block + (elements % block != 0); }

}  // namespace

std::string_view name(CodecKind kind) {
  for (const auto& [plain, its_kind] : kPlainNames) {
    if (its_kind == kind) return plain;
  }
  return "topk";
}

Result<Codec> parse_codec(std::string_view written) {
  for (const auto& [plain, kind] : kPlainNames) {
    if (written == plain) return Codec{.kind = kind};
  }
  if (written.starts_with(kTopKPrefix)) {
    const std::string_view share = written.substr(kTopKPrefix.size());
    const char* end = share.data() + share.size();
    Codec codec{.kind = CodecKind::kTopK};
    const auto [stop, error] = std::from_chars(share.data(), end, codec.keep);
    if (error == std::errc() && stop == end && is_share(codec.keep)) return codec;
    return invalid("'", written, "' must name a share above 0 and at most 1, such as topk:0.01");
  }
  return invalid("'", written,
                 "' is not a codec; choose none, fp16, bf16, int8, int4 or topk:SHARE, such as topk:0.01");
}

std::string to_string(const Codec& codec) {
  if (codec.kind != CodecKind::kTopK) return std::string(name(codec.kind));
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), codec.keep).ptr;
  return text(kTopKPrefix, std::string_view(digits.data(), end));
}

std::ostream& operator<<(std::ostream& out, const Codec& codec) { return out << to_string(codec); }

std::size_t encoded_size(const Codec& codec, std::size_t elements) {
  switch (codec.kind) {
    case CodecKind::kNone: return elements * sizeof(float);
    case CodecKind::kFp16:
    case CodecKind::kBf16: return elements * 2;
    case CodecKind::kInt8: return elements + blocks_of(elements, kInt8Block) * kInt8ScaleBytes;
    case CodecKind::kInt4: return elements / 2 + elements % 2 + blocks_of(elements, kInt4Block) * kInt4ScaleBytes;
    case CodecKind::kTopK: return topk_size(elements, topk_count(codec.keep, elements));
  }
  return 0;
}

bool is_encoded_size(CodecKind kind, std::size_t elements, std::size_t bytes) {
  if (kind == CodecKind::kTopK) return topk_kept(elements, bytes).has_value();
  return bytes == encoded_size({.kind = kind}, elements);
}

double encoded_share(const Codec& codec) {
  constexpr std::size_t kMany = 1 << 20;
  return static_cast<double>(encoded_size(codec, kMany)) / static_cast<double>(kMany * sizeof(float));
}

Status check_encode(const Codec& codec, std::size_t elements, std::size_t bytes) {
  if (codec.kind > CodecKind::kTopK) return invalid("there is no codec ", static_cast<int>(codec.kind));
  if (codec.kind == CodecKind::kTopK && !is_share(codec.keep)) {
    return invalid("top-k keeps a share above 0 and at most 1, not ", codec.keep);
  }
  if (const std::size_t size = encoded_size(codec, elements); bytes != size) {
    return invalid(elements, " elements as ", codec, " take ", size, " bytes, not ", bytes);
  }
  return {};
}

Status encode_with(const CodecKernels& kernels, const Codec& codec, std::span<const float> values,
                   std::span<std::byte> out) {
  if (Status status = check_encode(codec, values.size(), out.size()); !status.ok()) return status;
  if (values.empty()) return {};
  switch (codec.kind) {
    case CodecKind::kNone: std::memcpy(out.data(), values.data(), out.size()); break;
    case CodecKind::kFp16: kernels.encode_fp16(values, out.data()); break;
    case CodecKind::kBf16: kernels.encode_bf16(values, out.data()); break;
    case CodecKind::kInt8: kernels.encode_int8(values, out.data()); break;
    case CodecKind::kInt4: kernels.encode_int4(values, out.data()); break;
    case CodecKind::kTopK: encode_topk(kernels, values, topk_count(codec.keep, values.size()), out.data()); break;
  }
  return {};
}

Status decode_with(const CodecKernels& kernels, CodecKind kind, ByteSpan in, std::span<float> out) {
  if (kind > CodecKind::kTopK) return unsupported("codec ", static_cast<int>(kind), " is not known to this version");
  if (kind == CodecKind::kTopK) return decode_topk(in, out);
  if (const std::size_t size = encoded_size({.kind = kind}, out.size()); in.size() != size) {
    return corrupt(out.size(), " elements as ", name(kind), " take ", size, " bytes, but ", in.size(), " came");
  }
  if (out.empty()) return {};
  bool sound = true;
  switch (kind) {
    case CodecKind::kFp16: sound = kernels.decode_fp16(in.data(), out); break;
    case CodecKind::kBf16: sound = kernels.decode_bf16(in.data(), out); break;
    case CodecKind::kInt8: sound = kernels.decode_int8(in.data(), out); break;
    case CodecKind::kInt4: sound = kernels.decode_int4(in.data(), out); break;
    case CodecKind::kNone:
    case CodecKind::kTopK: std::memcpy(out.data(), in.data(), in.size()); break;
  }
  if (!sound) return corrupt("a block of ", name(kind), " has a scale or a code that no encoder writes");
  return {};
}

Status encode(const Codec& codec, std::span<const float> values, std::span<std::byte> out) {
  return encode_with(fastest_codec(), codec, values, out);
}

Status decode(CodecKind kind, ByteSpan in, std::span<float> out) { return decode_with(fastest_codec(), kind, in, out); }

}  // namespace ravnest::codec
