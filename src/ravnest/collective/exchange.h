// One collective operation of one member, with its data: a Ring that adds up, keeps, and makes the messages.
//
// Contributions are multiplied by a scale when they are added, so a weighted mean is the sum of what members scaled by
// their shares. All members end with the same bits: one computes a chunk, the others get its bytes.
// With a lossy codec every member that adds to a chunk encodes the partial sum; the owner keeps what the decoder makes
// of its own encoding. What an encoding loses stays with the member that encoded, in the residual, and is part of its
// next contribution.
// What comes in is never modified, since an in-process transport hands memory over by reference. What goes out lies in
// memory of the pool, which is used again when nobody holds the slice any more.
// The exchange does no I/O and keeps no time. Not thread-safe; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/codec/error_feedback.h"
#include "ravnest/collective/ring.h"
#include "ravnest/transport/buffers.h"
#include "ravnest/wire/message.h"

namespace ravnest::collective {

// With a message's head it fits into one frame of a connection (transport/session.h).
inline constexpr std::size_t kChunkBytes = 127 << 10;

struct ExchangeOptions {
  RingOptions ring;  // the number of elements follows from the contribution
  // What the members agree to call it: chunks that say otherwise are of another one.
  std::uint64_t round = 0;
  std::uint64_t attempt = 0;
  std::uint32_t vector = 0;
  double scale = 1;    // of the member's own values; whole where these are integers
  codec::Codec codec;  // of floats; all else goes as it is
  // For as many elements as there are, or none: losses are then forgotten. It outlives the exchange. One that is given
  // up half-way leaves it half changed: whoever tries again needs a copy from before.
  codec::ErrorFeedback* residual = nullptr;
};

// T is float, double, std::int64_t, or std::byte for operations that add nothing up.
template <class T>
class Exchange {
 public:
  // `contribution` outlives the exchange and, until it is complete, stays as it is. `pool` outlives it, too.
  // Chunks are copied to `into` as they become complete, which is as long as the contribution, and may be the
  // contribution itself.
  Exchange(const ExchangeOptions& options, std::span<const T> contribution, transport::BufferPool& pool,
           std::span<T> into);

  // What begins here, for the next member: at most that many messages at a time. To be called until there are none.
  // kInvalid for a codec that can not be.
  Result<std::vector<wire::RingChunk>> start(std::size_t most = static_cast<std::size_t>(-1));

  // What becomes of a chunk from the member before, whose bytes may be written over if nobody else holds them: a
  // message for the next member, or none. One that is late, doubled or of another exchange is ignored and counted. A
  // failure, kCorrupt, means that the members do not agree on what they exchange, or that one makes up bytes: the
  // exchange can not be completed any more.
  Result<std::optional<wire::RingChunk>> on_chunk(wire::RingChunk chunk);

  // All that the member has to hold is there, and all that it had to pass on was returned.
  bool complete() const { return all_begun() && ring_.complete(); }
  // All that begins here has begun.
  bool all_begun() const { return begun_ == own_.size(); }
  // How many of the chunks that began here are still on their way, by the share of all that has come. 0 where nothing
  // is to come.
  std::size_t under_way() const;
  const Ring& ring() const { return ring_; }
  std::uint64_t ignored() const { return ignored_; }

 private:
  Result<std::optional<wire::RingChunk>> carry_out(const RingStep& step, wire::Tensor* received);
  transport::Buffer place_for_sum(const RingStep& step, wire::Tensor* received);
  Status check(const wire::RingChunk& chunk, const Range& range) const;
  // The sum of what came, if anything, and the own contribution.
  Status add_up(const RingStep& step, const wire::Tensor* received, std::span<T> sum) const;
  // Encodes the sum, and makes of it what the others will see.
  Result<wire::Tensor> encoded(const RingStep& step, std::span<T> sum);
  // What came and is complete, as values.
  Result<Slice> decoded(const wire::Tensor& received);
  void keep(const RingStep& step, const Slice& values);

  const ExchangeOptions options_;
  const std::span<const T> contribution_;
  transport::BufferPool& pool_;
  const std::span<T> into_;
  Ring ring_;
  const std::vector<RingStep> own_;
  std::size_t begun_ = 0;  // of those
  std::uint64_t ignored_ = 0;
};

extern template class Exchange<float>;
extern template class Exchange<double>;
extern template class Exchange<std::int64_t>;
extern template class Exchange<std::byte>;

}  // namespace ravnest::collective
