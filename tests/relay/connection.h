// A client, the server, and a lane each way between them. Lives on the relay's loop, one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ravnest/base/clock.h"
#include "ravnest/base/descriptor.h"
#include "relay/door.h"
#include "relay/lane.h"
#include "relay/wire.h"

namespace ravnest::relay {

inline constexpr int kUp = 0;
inline constexpr int kDown = 1;

class Connection {
 public:
  // `left`: how many bytes it may deliver before it is cut. The wires outlive it.
  Connection(std::uint64_t id, Descriptor client, Wire& up, Wire& down, std::uint64_t left);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Starts to connect to the server. Whether that works shows later, as a side that is writable or broken.
  void dial(const Endpoint& server);
  // Makes the kernel's buffers as the wires want them.
  void size_buffers();
  // Ends both sides now, with a reset; what has not reached them is lost.
  void reset();

  // From here on only what has arrived is still written, for a short while, and then both sides are reset.
  void begin_reset(TimePoint now);
  bool is_resetting() const { return reset_by_.has_value(); }
  // Whether all that was given has reached the other machine's kernel, or the time for that is over.
  bool is_settled(TimePoint now) const;

  // The side that a lane takes from. The server's has no socket before it is dialled.
  Side& side(int way) { return way == kUp ? client_ : server_; }
  Lane& lane(int way) { return lanes_[static_cast<std::size_t>(way)]; }

  const std::uint64_t id;
  std::uint64_t left;
  bool is_ready = false;             // in the loop's list
  std::array<bool, 2> is_waiting{};  // in the queue of the wire of that direction
  std::optional<TimePoint> timer;    // the earliest that the loop holds for it

 private:
  Wire& up_;
  Wire& down_;
  Side client_;
  Side server_;
  std::array<Lane, 2> lanes_;
  std::optional<TimePoint> reset_by_;
};

}  // namespace ravnest::relay
