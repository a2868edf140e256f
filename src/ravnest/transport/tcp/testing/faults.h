// Endpoints over real sockets whose connections are cut and whose processes are killed, and a checker of what arrived.
//
// For tests and `make soak`: the same code, for a short or a long time.
#pragma once

#include <cstdint>
#include <string>

namespace ravnest::transport::tcp {

struct FaultsOutcome {
  std::string violation;  // the first broken promise; empty: none
  std::uint64_t faults = 0;
  std::uint64_t arrived = 0;
  std::uint64_t failed = 0;       // completed with a failure
  std::uint64_t losses = 0;       // of the peer, as reported
  std::uint64_t connections = 0;  // made
};

// Two endpoints talk in all priorities through relays that cut each connection after a random number of bytes, until
// `cuts` were made. Nothing may be lost, doubled, reordered or changed.
FaultsOutcome survive_cuts(std::uint64_t cuts, std::uint64_t seed, bool secure);

// One endpoint talks to the program `echo_node`, which is killed and started again. What is missing afterwards must
// have been reported.
FaultsOutcome survive_kills(std::uint64_t kills, std::uint64_t seed, const std::string& echo_node);

}  // namespace ravnest::transport::tcp
