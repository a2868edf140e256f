// A member's two connections of a ring: chunks come from the member before and go to the next one.
//
// Sending never waits, for the thread that sends is the one that takes chunks: two members that wait for each other
// would wait for ever. What has no room in the next member's queue is kept, and goes when there is some. Who is lost or
// has left is remembered. One thread at a time uses it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/transport/endpoint.h"

namespace ravnest::collective {

class Neighbours {
 public:
  // The endpoint, that of members[self], outlives it. What became of members before is taken from the channel, so that
  // it does not count against one that has come back.
  Neighbours(transport::Endpoint& endpoint, std::vector<std::string> members, std::size_t self);

  // Why it is no use to begin: kUnavailable with the name of a member that is lost, or of the one before if it has
  // left. Others that have left may have done their part of what is still to be done here.
  Status ready() const;

  // A failure is final: the next member is gone, or the endpoint is closed.
  Status send(wire::RingChunk chunk);
  // Whether nothing is kept.
  bool has_room() const { return unsent_.empty(); }
  // The next chunk, or none where all that was kept has found room meanwhile. kDeadline where neither happens until
  // then; other failures are final: a member was lost, the one before has left, the endpoint is closed.
  Result<std::optional<wire::RingChunk>> receive(TimePoint deadline);
  // Waits until all is accepted that was sent. To be called only when no more chunks are to be taken.
  Status finish(TimePoint deadline);

  const std::string& previous() const { return members_[(self_ + members_.size() - 1) % members_.size()]; }
  const std::string& next() const { return members_[(self_ + 1) % members_.size()]; }
  // Of a message to the next member and its answer; 0 where that was not measured yet.
  double round_trip_s() const;
  // How the member before is, and who else is gone, for people.
  std::string outlook() const;
  // What came and was not a chunk from the member before.
  std::uint64_t ignored() const { return ignored_; }

 private:
  Status pass_on(const wire::RingChunk& chunk, TimePoint deadline);
  // Whether there was room.
  Result<bool> offer(const wire::RingChunk& chunk);
  Status flush();
  // The peer's change, if it ends an operation.
  Status on_change(const std::string& peer, const transport::PeerChange& change);
  bool ends_all(const std::string& peer, const transport::PeerChange& change) const;
  void catch_up();
  bool is_member(const std::string& peer) const;

  transport::Endpoint& endpoint_;
  const std::vector<std::string> members_;
  const std::size_t self_;
  std::map<std::string, transport::PeerChange> gone_;  // members that are lost or have left
  std::optional<wire::RingChunk> waiting_;             // came while catching up
  std::deque<wire::RingChunk> unsent_;
  std::uint64_t ignored_ = 0;
  // Shared with completions, which may come when this is gone.
  std::shared_ptr<std::atomic<bool>> wants_room_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace ravnest::collective
