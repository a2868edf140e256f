// Runs collective operations of one member over their rings: what is sent to whom, and when a chunk begins.
//
// All that goes around a ring goes through here: the rounds between clusters (average/stage_exchange.h) and the calls
// of a group (group.h). The driver never waits. Its owner receives, and goes on like this until all is complete:
// flush the outbox; hand over what has come; where nothing has come and `may_begin`, begin one chunk more.
//
// So what came, which other members wait for, goes before what begins here. A member begins no more than it takes to
// keep the ring busy: what a processor's cache holds, and what a fast network has on its way. More would only wait in
// queues, and be out of the cache when its turn comes. All operations share that; but each may always have a few chunks
// under way, whatever the others have, so that members that are busy with different operations never wait for each
// other: of a ring's members the one that has begun the least has by then got as much as it began.
// What comes is passed on at once, and is bounded by what all members begin.
// Not thread-safe; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/collective/exchange.h"
#include "ravnest/transport/buffers.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/outbox.h"

namespace ravnest::collective {

// T as of an Exchange.
template <class T>
class RingDriver {
 public:
  // All outlive it.
  RingDriver(const transport::Endpoint& endpoint, transport::Outbox& outbox, transport::BufferPool& pool)
      : endpoint_(endpoint), outbox_(outbox), pool_(pool) {}

  // One more operation, known by the number of its vector, which no two share. The values are replaced in place, chunk
  // by chunk; they outlive the driver. `previous` and `next` are the member's neighbours on the ring.
  void add(const ExchangeOptions& options, std::span<T> values, std::string previous, std::string next);

  // Whether `begin` has something to do now.
  bool may_begin() const;
  // Begins one chunk, of the operations in turn. kInvalid for a codec that can not be.
  Status begin();
  // What came from `from`. It is ignored and counted where it is not of an operation here, or not from the member
  // before. kCorrupt where the members do not exchange the same: the operation can not be completed any more.
  Status on_chunk(const std::string& from, wire::RingChunk chunk);

  // Every operation is complete, and all that it has to pass on was sent.
  bool complete() const;
  // Chunks that have come, of those that have to.
  std::uint64_t received() const;
  std::uint64_t expected() const;
  std::uint64_t ignored() const;
  std::uint64_t bytes_sent() const { return bytes_sent_; }  // of values

 private:
  struct Running {
    std::uint32_t vector = 0;
    Exchange<T> exchange;
    std::string previous;
    std::string next;
    std::size_t most_under_way = 0;  // of all operations' chunks, for this one to begin another
  };

  const Running* first_to_begin() const;
  Status send(const Running& from, wire::RingChunk&& chunk);

  const transport::Endpoint& endpoint_;
  transport::Outbox& outbox_;
  transport::BufferPool& pool_;
  std::vector<std::unique_ptr<Running>> running_;
  std::size_t turn_ = 0;  // whose it is to begin
  std::uint64_t ignored_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

extern template class RingDriver<float>;
extern template class RingDriver<double>;
extern template class RingDriver<std::int64_t>;
extern template class RingDriver<std::byte>;

}  // namespace ravnest::collective
