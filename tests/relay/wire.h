// One direction's clock: when bytes that are taken now arrive at the other end.
//
// No I/O and no clock of its own. Bytes leave one after the other at the direction's rate, whichever connection they
// belong to, and arrive after its delay and jitter. Not thread-safe; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

#include "ravnest/base/clock.h"
#include "relay/profile.h"

namespace ravnest::relay {

class Wire {
 public:
  Wire(const Direction& direction, std::uint64_t seed, TimePoint now);

  bool is_limited() const { return direction_.mbps > 0; }
  // When the next bytes should be taken: a little before the wire is free, so that it never waits for them.
  TimePoint opens_at() const;
  // How many bytes to take at a time, so that connections take turns about every millisecond.
  std::size_t piece_bytes() const { return piece_bytes_; }

  // Someone has bytes again after no one had any: the time between is lost, as it is on a real wire.
  void wake(TimePoint now);
  // Takes bytes onto the wire; when the last of them arrives. Of time that passed since the wire was free, `carry`
  // makes up for a tenth of a second: a busy machine should not make the wire slower.
  TimePoint carry(std::size_t bytes, TimePoint now);

  // What one connection may hold in this direction: what the wire itself holds, and a little more.
  std::size_t room_bytes() const { return room_bytes_; }
  // For each of the kernel's own buffers, which would otherwise hide the rate behind tens of megabytes.
  int kernel_bytes() const { return kernel_bytes_; }

 private:
  Direction direction_;
  std::mt19937_64 random_;
  TimePoint free_at_;
  std::size_t piece_bytes_;
  std::size_t room_bytes_;
  int kernel_bytes_;
};

}  // namespace ravnest::relay
