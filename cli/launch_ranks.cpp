#include "launch_ranks.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "local_processes.h"
#include "ravnest/base/random_id.h"
#include "ravnest/net/held_port.h"
#include "ravnest/strategy/launch/run_token.h"
#include "ravnest/strategy/place/rank_environment.h"
#include "stop_signals.h"

namespace ravnest::cli {
namespace {

using strategy::Environment;
using strategy::Place;
using strategy::RunToken;

// All ranks of a run are to end within ten seconds, and this leaves five for those that do not follow an interrupt.
constexpr Duration kAfterRankFailure = std::chrono::seconds(4);
constexpr const char* kThreads = "OMP_NUM_THREADS";
constexpr const char* kToken = "RAVNEST_TOKEN";

Result<RunToken> token_for(const LaunchRequest& request, const Environment& environment) {
  if (!request.token_file.empty()) return RunToken::read(request.token_file);
  if (const auto given = environment.find(kToken); given != environment.end())
    return RunToken::parse(given->second, kToken);
  if (request.place.nodes == 1) return RunToken::create();
  return invalid("ranks on ", request.place.nodes,
                 " machines know each other by a token: make one with `ravnest token`, and give the same to every "
                 "machine as RAVNEST_TOKEN, or in a file with --token-file");
}

// What all ranks of this machine are told.
Result<Environment> shared_environment(const LaunchRequest& request, const Environment& environment) {
  const auto token = token_for(request, environment);
  if (!token.ok()) return token.status();
  Environment shared = {{kToken, token->text()}};
  // Ranks that share a machine would fight for its cores.
  const int ranks = request.place.local_world;
  if (ranks > 1 && !environment.contains(kThreads))
    shared.emplace(kThreads, text(std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks)));
  return shared;
}

LocalProcess process_of(const LaunchRequest& request, const Place& place, const Environment& shared, int local_rank) {
  LocalProcess process{text("rank_", place.first_rank() + local_rank), request.command, {}};
  for (const Environment& variables : {strategy::rank_environment(place, local_rank), shared}) {
    for (const auto& [name, value] : variables) process.environment.push_back(text(name, "=", value));
  }
  return process;
}

}  // namespace

Result<int> launch_ranks(const LaunchRequest& request, const Environment& environment) {
  StopSignals signals(SIGUSR1);
  const auto shared = shared_environment(request, environment);
  if (!shared.ok()) return shared.status();
  Place place = request.place;
  std::optional<HeldPort> port;
  if (place.master.port == 0) {
    auto held = HeldPort::take();
    if (!held.ok()) return held.status();
    port.emplace(*std::move(held));
    place.master.port = port->port();
  }
  if (place.run_id.empty() && place.nodes == 1) place.run_id = random_id(12);
  LocalRun run{.what = "ranks", .processes = {}, .after_failure = kAfterRankFailure};
  for (int local_rank = 0; local_rank < place.local_world; ++local_rank)
    run.processes.push_back(process_of(request, place, *shared, local_rank));
  auto status = run_local_processes(run, signals);
  if (status.ok()) signals.block_until_exit();
  return status;
}

}  // namespace ravnest::cli
