#include "ravnest/codec/error_feedback.h"

#include <algorithm>
#include <array>

#include "ravnest/codec/half.h"
#include "ravnest/codec/kernels.h"
#include "ravnest/codec/topk.h"

namespace ravnest::codec {
namespace {

float finite_or_zero(float value) { return magnitude_bits(value) < kInfinityBits ? value : 0; }

// Works piece by piece, so that what comes back is still in the cache when it is subtracted, and no second buffer of
// the tensor's size is needed. Right for codecs whose encodings are local.
Status encode_pieces(const Codec& codec, std::span<const float> values, std::span<float> residual,
                     std::span<std::byte> out) {
  std::array<float, 4096> decoded;
  while (!values.empty()) {
    const auto piece = residual.first(std::min(decoded.size(), residual.size()));
    const auto bytes = out.first(encoded_size(codec, piece.size()));
    const auto back = std::span(decoded).first(piece.size());
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] += values[i];
    Status status = encode(codec, piece, bytes);
    if (status.ok()) status = decode(codec.kind, bytes, back);
    if (!status.ok()) return status;
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = finite_or_zero(piece[i] - back[i]);
    values = values.subspan(piece.size());
    residual = residual.subspan(piece.size());
    out = out.subspan(bytes.size());
  }
  return {};
}

}  // namespace

Status ErrorFeedback::encode(const Codec& codec, std::span<const float> values, std::span<std::byte> out) {
  if (values.size() != residual_.size()) {
    return invalid("error feedback for ", residual_.size(), " elements got ", values.size());
  }
  return encode(codec, values, out, 0);
}

Status ErrorFeedback::encode(const Codec& codec, std::span<const float> values, std::span<std::byte> out,
                             std::size_t first) {
  if (first > residual_.size() || values.size() > residual_.size() - first) {
    return invalid("error feedback for ", residual_.size(), " elements got ", values.size(), " from element ", first);
  }
  if (Status status = check_encode(codec, values.size(), out.size()); !status.ok()) return status;
  const auto residual = std::span(residual_).subspan(first, values.size());
  if (codec.kind != CodecKind::kTopK) return encode_pieces(codec, values, residual, out);
  for (std::size_t i = 0; i < values.size(); ++i) residual[i] += values[i];
  if (Status status = codec::encode(codec, residual, out); !status.ok()) return status;
  const Status status = clear_kept(out, residual);
  for (float& value : residual) value = finite_or_zero(value);
  return status;
}

void ErrorFeedback::reset() { std::ranges::fill(residual_, 0.0F); }

}  // namespace ravnest::codec
