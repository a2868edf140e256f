// The ranks of a data-parallel run that belong on this machine, as processes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/strategy/place/place.h"

namespace ravnest::cli {

struct LaunchRequest {
  strategy::Place place;             // of this machine, without a rank (strategy::find_place)
  std::vector<std::string> command;  // what every rank runs
  std::filesystem::path token_file;  // empty: RAVNEST_TOKEN
};

// Runs the command once for each rank, with torchrun's variables (strategy::rank_environment), RAVNEST_TOKEN and,
// unless `environment` has one, OMP_NUM_THREADS: the rank's share of the cores. Where all ranks are here and nobody has
// said so, they meet at a free port of this machine, and share a token made for this run.
//
// Returns the exit status of the whole once all have ended (run_local_processes says which); kInvalid where ranks of
// several machines have no token. To be called before this process has threads: it takes the signals over, until it
// ends.
Result<int> launch_ranks(const LaunchRequest& request, const strategy::Environment& environment);

}  // namespace ravnest::cli
