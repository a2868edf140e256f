// A stream of zeros for a while, and how fast it arrived.
#pragma once

#include "ravnest/base/status.h"
#include "ravnest/machine/link_protocol.h"
#include "ravnest/net/socket.h"

namespace ravnest {

// Sends zeros for `length`, as fast as the connection takes them, then one byte 1.
Status send_stream(Socket& socket, Duration length, const Wait& wait);

// Receives and discards such a stream. The rate is that of arrivals between a quarter of `length` and `length` after
// the first byte: a connection starts slowly, and what comes late was only waiting. kUnavailable where too little
// arrived in that time to tell.
Result<StreamRate> receive_stream(Socket& socket, Duration length, const Wait& wait);

}  // namespace ravnest
