// One direction of one connection: what it takes from one side it gives to the other when the wire says so.
//
// Nothing here blocks. The sides say what may be tried (they are watched edge by edge); a lane tries it and writes back
// what it found. Lives on the relay's loop, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/clock.h"
#include "ravnest/base/descriptor.h"
#include "relay/wire.h"

namespace ravnest::relay {

// One of the two sockets of a connection.
struct Side {
  Descriptor socket;
  bool readable = false;
  bool writable = false;
  bool broken = false;  // reset by whoever is there, or never reached
};

class Lane {
 public:
  // The sides and the wire outlive the lane.
  Lane(Side& from, Side& to, Wire& wire) : from_(from), to_(to), wire_(wire) {}

  // There may be something to read, and there is room for it.
  bool wants_to_take() const;
  // Reads once, into `scratch`. What arrives at once is written at once, without being kept. `left`: how many bytes the
  // connection may still deliver; counted down.
  void take(std::span<std::byte> scratch, const Clock& clock, std::uint64_t& left);
  // Writes what has arrived by now.
  void give(TimePoint now, std::uint64_t& left);
  // The side it takes from broke after it had ended in good order; the other side has to learn that too.
  void pass_break_on(TimePoint now);

  // When something arrives next, if anything is under way. What has arrived waits for the other side, not for a time.
  std::optional<TimePoint> next(TimePoint now) const;
  // Has arrived but could not be written yet.
  bool is_behind(TimePoint now) const { return !held_.empty() && held_.front().arrives <= now; }
  // The end of the stream has been passed on.
  bool is_finished() const { return finished_; }
  // A reset has arrived.
  bool is_reset(TimePoint now) const { return end_ == End::kReset && end_arrives_ <= now; }
  std::uint64_t bytes_given() const { return bytes_given_; }

 private:
  enum class End : std::uint8_t { kNone, kInOrder, kReset };
  struct Piece {
    std::vector<std::byte> bytes;
    std::size_t given = 0;
    TimePoint arrives;
  };

  std::size_t write(ByteSpan bytes, std::uint64_t& left);
  void hold(ByteSpan bytes, TimePoint arrives);
  void end(End how, TimePoint now);

  Side& from_;
  Side& to_;
  Wire& wire_;
  std::deque<Piece> held_;
  std::size_t held_bytes_ = 0;  // with what it costs to hold them
  TimePoint last_arrives_{};
  End end_ = End::kNone;
  TimePoint end_arrives_{};
  bool finished_ = false;
  std::uint64_t bytes_given_ = 0;
};

}  // namespace ravnest::relay
