#include "ravnest/strategy/place/rank_environment.h"

#include "ravnest/base/check.h"

namespace ravnest::strategy {

Environment rank_environment(const Place& place, int local_rank) {
  RAVNEST_CHECK(!place.rank, "a rank starts no ranks");
  RAVNEST_CHECK(local_rank >= 0 && local_rank < place.local_world, local_rank, " of ", place.local_world);
  RAVNEST_CHECK(place.master.port != 0, "the master has no port");
  return {{"RANK", text(place.first_rank() + local_rank)},
          {"LOCAL_RANK", text(local_rank)},
          {"WORLD_SIZE", text(place.world)},
          {"LOCAL_WORLD_SIZE", text(place.local_world)},
          {"GROUP_RANK", text(place.node.value())},
          {"GROUP_WORLD_SIZE", text(place.nodes)},
          {"MASTER_ADDR", place.master.host},
          {"MASTER_PORT", text(place.master.port)},
          // torchrun's own word where nobody has named the run. Scripts take its presence for "torchrun started me".
          {"TORCHELASTIC_RUN_ID", place.run_id.empty() ? "none" : place.run_id},
          {"TORCHELASTIC_RESTART_COUNT", "0"},
          // Said aloud, since it may be left from another launcher: rank 0 listens on the master's port by itself.
          {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
}

}  // namespace ravnest::strategy
