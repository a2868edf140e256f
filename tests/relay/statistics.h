// What a relay has carried so far.
#pragma once

#include <cstdint>

namespace ravnest::relay {

struct Statistics {
  std::uint64_t connections = 0;  // accepted
  std::uint64_t cuts = 0;         // of these, ended by the relay
  std::uint64_t bytes_up = 0;     // handed to the server
  std::uint64_t bytes_down = 0;   // handed to the clients
};

}  // namespace ravnest::relay
