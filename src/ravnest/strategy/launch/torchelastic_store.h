// How the ranks that torchrun starts find rank 0: by the store that torchrun's agent holds at the master's port.
//
// The agent listens there itself (Place::agent_store), so rank 0 can't. It listens on a free port instead and leaves
// its address in the store, under a key of this run and this restart; all others read it. Nothing else goes through the
// store: it has no encryption, and whoever is not rank 0 fails at its certificate.
#pragma once

#include "ravnest/strategy/launch/rendezvous.h"
#include "ravnest/strategy/place/place.h"

namespace ravnest::strategy {

// For RendezvousOptions::exchange. Both functions give kUnavailable, with the store's address, where nobody answers
// there for five seconds or the store's connection breaks; `find` waits for rank 0 for as long as `poll` says.
MasterExchange torchelastic_exchange(const Place& place);

}  // namespace ravnest::strategy
