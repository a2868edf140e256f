// The side that measures: how fast and how far away a peer is.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/net/address.h"

namespace ravnest {

struct LinkOptions {
  std::uint32_t echoes = 51;
  Duration stream = std::chrono::seconds(2);    // for each direction, 10 s at most
  Duration timeout = std::chrono::seconds(45);  // for everything
};

struct LinkMeasurement {
  double up_mbps = 0;     // from here to the peer, as it arrived there
  double down_mbps = 0;   // from the peer to here
  double latency_ms = 0;  // one way: half of the median round trip of one byte

  // What a pipeline can count on, activations going one way and gradients the other.
  double bandwidth_mbps() const { return std::min(up_mbps, down_mbps); }
};

// Measures the TCP link to a `LinkServer` at `peer`, one connection, nothing else of ours on the wire meanwhile. `stop`
// as in Wait. kUnavailable where nobody is there or the peer is busy with another client; kCorrupt where someone else
// answers; kUnsupported and kInvalid where the peer will not measure with these versions or options.
Result<LinkMeasurement> measure_link(const Address& peer, const LinkOptions& options = {}, int stop = -1);

}  // namespace ravnest
