// What a launcher tells the ranks that it starts: torchrun's variables, so that a script for torchrun runs unchanged.
#pragma once

#include "ravnest/strategy/place/place.h"

namespace ravnest::strategy {

// For the rank `place.first_rank() + local_rank` of a machine whose place has no rank yet, but a master with a port.
// What `find_place` makes of it in that rank is `place`, with its rank.
Environment rank_environment(const Place& place, int local_rank);

}  // namespace ravnest::strategy
