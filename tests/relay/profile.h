// What a relay does to the connections that it carries.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"

namespace ravnest::relay {

// One way. All connections share its rate, as they would share one wire; headers and acknowledgements do not count.
struct Direction {
  double mbps = 0;    // 10^6 bits per second; 0: as fast as it goes
  Duration delay{};   // one way: the round trip is the sum of both directions
  Duration jitter{};  // from 0 to this much more, drawn anew for every piece; the order of bytes is kept
};

struct Profile {
  Direction up{};    // from the clients to the server
  Direction down{};  // from the server to the clients
  // A connection is cut as soon as it has delivered so many bytes, both directions together: a number drawn for each
  // connection from this range, its ends included. 0 and 0: never.
  std::uint64_t cut_min_bytes = 0;
  std::uint64_t cut_max_bytes = 0;
  std::uint64_t seed = 0;  // of jitter and cuts
};

// The delay in a name is the round trip, half of it each way; the rate holds for each direction on its own.
inline constexpr std::array<std::string_view, 3> kProfileNames{"clean", "100mbps-80ms", "10mbps-150ms"};

// kNotFound where the name is none of these.
Result<Profile> profile_named(std::string_view name);

// kInvalid where a number makes no sense.
Status check(const Profile& profile);

}  // namespace ravnest::relay
