// One collective operation over a ring, as a state machine: what a member does with each chunk.
//
// Members 0 to n-1 form the ring; each sends to the next one, (i + 1) % n, and the last to the first.
// The values are cut into n segments of nearly equal length, and each segment into chunks alike. Chunks travel on their
// own, without barriers. In an all-reduce a chunk begins at the member after the segment's owner with that member's own
// contribution; each member that gets it adds its own and passes it on at once. After n-1 hops it comes to its owner
// (member i owns segment i), which completes it; n-1 more hops hand the complete chunk to everyone. A reduce-scatter is
// the first half of that, an all-gather the second. A broadcast has one segment, which goes from its root along the
// ring. So a member gets each chunk at most twice, and one message is sent for each message received, but for the ends.
//
// The ring has no data, threads, sockets or clocks: its owner tells it what came and does what it returns. Not
// thread-safe; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::collective {

enum class Operation : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast };
// As people call it, such as "all-reduce".
std::string_view name(Operation operation);
inline std::ostream& operator<<(std::ostream& out, Operation operation) { return out << name(operation); }

// Elements [first, end).
struct Range {
  std::size_t first = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - first; }
  bool operator==(const Range&) const = default;
};

// Segment `segment` of `segments`. Their lengths differ by one element at most.
Range segment_range(std::size_t elements, std::uint32_t segments, std::uint32_t segment);

struct RingOptions {
  Operation operation = Operation::kAllReduce;
  std::uint32_t members = 1;  // at least 1
  std::uint32_t self = 0;     // below `members`
  std::uint32_t root = 0;     // of a broadcast; below `members`
  std::size_t elements = 0;
  std::size_t chunk_elements = 1;  // at least 1; no chunk is longer
};

// What to do with a chunk: in this order, as far as it is said.
struct RingStep {
  std::uint32_t segment = 0;
  std::uint32_t chunk = 0;
  Range range;            // of the values
  bool add = false;       // the member's own contribution to what came
  bool keep = false;      // it is complete
  std::uint32_t hop = 0;  // to send it to the next member with; 0: it goes no further

  bool operator==(const RingStep&) const = default;
};

class Ring {
 public:
  explicit Ring(const RingOptions& options);

  // The chunks that begin here, made of the member's own values alone. To be called once.
  std::vector<RingStep> start();

  // A chunk came from the member before, having come from or through `hop` members. Refused with kInvalid, and nothing
  // changed, where no such chunk can come here or it has come already.
  Result<RingStep> on_chunk(std::uint32_t segment, std::uint32_t chunk, std::uint32_t hop);

  // The member has begun, holds every chunk that it has to hold, and has got all that it has to pass on.
  bool complete() const { return started_ && received_ == expected_; }
  // Chunks that have come, of those that have to.
  std::uint64_t received() const { return received_; }
  std::uint64_t expected() const { return expected_; }

 private:
  std::uint32_t origin(std::uint32_t segment) const;
  // The hop with which a chunk of the segment comes for the first time, or again (+ members).
  std::uint32_t first_hop(std::uint32_t segment) const;
  std::uint32_t chunks_of(std::uint32_t segment) const { return first_chunk_[segment + 1] - first_chunk_[segment]; }
  RingStep step(std::uint32_t segment, std::uint32_t chunk, std::uint32_t hop) const;

  const RingOptions options_;
  const std::uint32_t segments_;
  const std::uint32_t reducing_hops_;  // the last of which completes a chunk
  const std::uint32_t last_hop_;
  std::vector<std::uint32_t> first_chunk_;  // of each segment, counted over all
  std::vector<std::uint8_t> times_;         // each chunk has come
  std::uint64_t received_ = 0;
  std::uint64_t expected_ = 0;
  bool started_ = false;
};

}  // namespace ravnest::collective
