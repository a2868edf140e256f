// Sends later what a lossy codec could not send now.
//
// What an encoding lost of a tensor is kept and added to the tensor that is encoded next, so that over many rounds
// the sum of what arrives follows the sum of what was meant: they differ by the residual of the last round alone.
// Made for gradients and for parts of models that are added up, one object per tensor.
// Not thread-safe; one owner.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"

namespace ravnest::codec {

class ErrorFeedback {
 public:
  explicit ErrorFeedback(std::size_t elements) : residual_(elements) {}
  // Goes on with what another has lost.
  explicit ErrorFeedback(std::vector<float> residual) : residual_(std::move(residual)) {}

  // Encodes `values` plus the residual, and keeps what was lost. Where that sum, or what the codec makes of it, is not
  // finite, nothing is kept: a NaN or an infinity passes once and leaves no trace.
  // kInvalid, with nothing changed, for another number of values than the object was made for, and where wire::encode
  // fails.
  Status encode(const Codec& codec, std::span<const float> values, std::span<std::byte> out);
  // The same for a part of the tensor, which begins with its element `first`. kInvalid where it goes beyond the end.
  Status encode(const Codec& codec, std::span<const float> values, std::span<std::byte> out, std::size_t first);

  // What the encodings so far have lost; all finite.
  std::span<const float> residual() const { return residual_; }

  // Forgets the residual, as when the tensor was replaced by one from elsewhere.
  void reset();

 private:
  std::vector<float> residual_;
};

}  // namespace ravnest::codec
