// Collectives between named members over an Endpoint, as calls that return when this member's part is done.
//
// All members make the same calls in the same order, with as many values of the same type; the calls are numbered, and
// a chunk of another one never gets in. Values are replaced in place, chunk by chunk. What is under way lies in memory
// of the group's own, so the caller's is not needed any more when a call returns.
// After a failure the values are partly replaced and the members may not agree on how far they are. Every later call
// then fails with the same reason: make new groups, over new endpoints.
// A call waits as long as its deadline lets it, asleep, while the others are alive; `abort` ends it sooner.
// The group takes what comes on Channel::kAveraging, alone. One thread at a time uses it, but for `abort`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/collective/exchange.h"
#include "ravnest/collective/members.h"
#include "ravnest/collective/ring_driver.h"
#include "ravnest/transport/buffers.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/outbox.h"

namespace ravnest::collective {

struct GroupOptions {
  std::size_t chunk_bytes = kChunkBytes;
  std::uint32_t vector = 0;  // what its chunks are marked with
};

// How a member's values go into a sum.
struct ReduceOptions {
  double scale = 1;         // they are multiplied by it
  codec::Codec codec = {};  // of floats on their way; doubles go as they are
  // What encodings lose, for the next call with these values; as in ExchangeOptions.
  codec::ErrorFeedback* residual = nullptr;
};

class Group {
 public:
  // `members` are the names of nodes in the order of the ring; this one is members[self], the endpoint's own. Each
  // needs its neighbours as peers, and hears of others that are lost where those are peers, too. The endpoint outlives
  // the group.
  Group(transport::Endpoint& endpoint, std::vector<std::string> members, std::size_t self, GroupOptions options = {});

  // Every member gets the sum of all members' values, each times its member's scale; the same bits everywhere.
  // Integers are added up exactly, and wrap around.
  // All calls fail in the same ways: kUnavailable with the name where a member is lost or has left; kDeadline; kCorrupt
  // where the members do not exchange the same; kInvalid where there is no such member or codec; kCancelled where
  // the endpoint is closed; the reason of an `abort`.
  Status all_reduce(std::span<float> values, TimePoint deadline, const ReduceOptions& options = {});
  Status all_reduce(std::span<double> values, TimePoint deadline, const ReduceOptions& options = {});
  Status all_reduce(std::span<std::int64_t> values, TimePoint deadline);

  // The same sums, of which a member gets its own segment; its other values stay as they are.
  Status reduce_scatter(std::span<float> values, TimePoint deadline, const ReduceOptions& options = {});
  Status reduce_scatter(std::span<double> values, TimePoint deadline, const ReduceOptions& options = {});

  // Every member gives its own segment and gets those of all others. As bytes, values of any type travel as they are.
  Status all_gather(std::span<float> values, TimePoint deadline);
  Status all_gather(std::span<double> values, TimePoint deadline);
  Status all_gather(std::span<std::byte> values, TimePoint deadline);

  // Every member gets the values of members[root].
  Status broadcast(std::span<float> values, std::size_t root, TimePoint deadline);
  Status broadcast(std::span<double> values, std::size_t root, TimePoint deadline);
  Status broadcast(std::span<std::byte> values, std::size_t root, TimePoint deadline);

  // Ends the call that is under way, and all later ones, with this reason as it is; the first one holds. From any
  // thread; it does not wait for the call. A call that is as good as done may still succeed.
  void abort(const Status& why);

  // This member's segment of that many values: an equal share where they can be shared out equally, else the first
  // members have one more.
  Range own_segment(std::size_t elements) const;
  // What came and was late, doubled or nothing of this group's.
  std::uint64_t ignored() const { return ignored_; }

 private:
  template <class T>
  Status run(Operation operation, std::span<T> values, TimePoint deadline, const ReduceOptions& reduce = {},
             std::size_t root = 0);
  template <class T>
  Status drive(RingDriver<T>& driver, TimePoint deadline);
  // Until the next member's queue has taken all that is for it.
  Status hand_over(TimePoint deadline);
  // Takes one event, if only an interruption; kDeadline where there is none in time.
  Status receive(TimePoint deadline);
  // Takes what became of members before the group was made.
  void catch_up();
  void sort(const std::string& from, wire::Message& message);
  Status abort_reason() const;

  transport::Endpoint& endpoint_;
  const std::uint32_t self_;
  const GroupOptions options_;
  Members members_;
  transport::Outbox outbox_;
  transport::BufferPool pool_;
  Status broken_;            // why no further call can succeed
  std::uint64_t round_ = 0;  // the current call
  // Of later calls: a member that has done its part may be ahead, by one call or by as many broadcasts as it has begun.
  std::map<std::uint64_t, std::deque<wire::RingChunk>> early_;
  std::deque<wire::RingChunk> at_hand_;  // of the current call
  std::uint64_t ignored_ = 0;
  mutable Mutex abort_mutex_;
  Status abort_reason_ RAVNEST_GUARDED_BY(abort_mutex_);
};

}  // namespace ravnest::collective
