// Where a rank listens, and where it finds rank 0.
#pragma once

#include <cstdint>
#include <memory>

#include "ravnest/base/status.h"
#include "ravnest/net/address.h"
#include "ravnest/strategy/launch/rendezvous.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace ravnest::strategy {

// Whether these options can work at all: a rank, a place to meet, and a token unless all is on this machine.
Status check_options(const RendezvousOptions& options);

// Until MASTER_ADDR has an address. A name may be new: it gets a few seconds to become known. Of rank 0 the address has
// to be this machine's own, unless it is found otherwise. kInvalid where it is not, and what `poll` returned.
Status check_master(const RendezvousOptions& options, const Poll& poll);

// Opens the rank's endpoint, `basis` but for where it listens: rank 0 at the master's port, others at one of `ports`,
// on every address unless the master is this machine's loopback. kUnavailable where the port is taken, with the program
// that has it.
Result<std::unique_ptr<transport::tcp::NetworkEndpoint>> open_rank(const RendezvousOptions& options,
                                                                   const transport::tcp::Options& basis);

// Where rank 0 is, which listens at `port` if it is this one: at the master's address, or as the exchange says, by
// which rank 0 tells the others. Waits for it as `poll` says.
Result<Address> find_rank_0(const RendezvousOptions& options, std::uint16_t port, const Poll& poll);

}  // namespace ravnest::strategy
