// `ravnest simulate`: what would happen, without anyone's machines.
#include "simulate.h"

#include "commands.h"
#include "ranges.h"

namespace ravnest::cli {
namespace {

constexpr const char* kPoolHelp =
    "The command measures nothing and asks no machine. For the start and after each event it predicts the samples per\n"
    "second of the plan of the start, as it would run on, and of a plan made anew.\n"
    "\n"
    "A scenario:\n"
    "  {\"nodes\": [{\"count\": 100, \"ram\": 16, \"bandwidth\": 100, \"compute\": 200, \"latency\": 20, \"spread\": "
    "0.2},\n"
    "             {\"count\": 20, \"ram\": 4, \"bandwidth\": 20, \"compute\": 40}],\n"
    "   \"events\": [{\"join\": {\"count\": 10, \"ram\": 4, \"bandwidth\": 10}, \"name\": \"old laptops\"},\n"
    "              {\"leave\": [3, 17]},\n"
    "              {\"link\": {\"nodes\": [0], \"bandwidth\": 5, \"latency\": 80}},\n"
    "              {\"slow\": {\"nodes\": [1, 2], \"factor\": 0.25}},\n"
    "              {\"reduce_factor\": 50}],\n"
    "   \"balance\": \"time\", \"min_cluster_size\": 2, \"seed\": 42, \"optimizer_state\": 2, \"reduce_factor\": "
    "100}\n"
    "\n"
    "  ram in GB, bandwidth in Mbps, compute in GFLOP/s, latency in ms; spread draws ram, bandwidth and compute of\n"
    "  each node within +-20 % here. In place of \"nodes\": \"pool\": \"node_configs.json\", beside the scenario. "
    "Nodes\n"
    "  have the ids 0, 1, ... in order; those that join get the next ones. Only \"nodes\" or \"pool\" is required.\n"
    "\n"
    "Examples:\n"
    "  ravnest simulate model.pt2 scenario.json\n"
    "  ravnest simulate model.pt2 scenario.json --svg curves.svg --json figures.json"
    "\n";

constexpr const char* kProtocolHelp =
    "With --protocol, the command draws clusters from seeds, runs them on simulated time, networks and faults, and\n"
    "checks what the stages promise each other. When it finds a broken promise, it prints the shortest run that it\n"
    "can find, event by event, and ends with status 1.\n"
    "\n"
    "Examples:\n"
    "  ravnest simulate --protocol pipeline --seeds 100000\n"
    "  ravnest simulate --protocol pipeline --seed 17 --verbose\n"
    "  ravnest simulate --protocol pipeline --sabotage ignores-updates";

void add_pool_options(CLI::App& command, PoolOptions& options) {
  command.add_option("model", options.archive, "The captured model, a .pt2 archive");
  command.add_option("scenario", options.scenario, "The pool and what happens to it, a JSON file; see below");
  command.add_option("--svg", options.svg, "Plot both curves into this file, in place of bars in the terminal");
  command.add_option("--json", options.json, "Write all figures into this file");
}

void add_protocol_options(CLI::App& command, ProtocolOptions& options) {
  CLI::Option* protocol = command.add_option("--protocol", options.protocol, "In place of a pool: the protocol to try")
                              ->check(CLI::IsMember({"pipeline"}));
  const auto add = [&](CLI::Option* option) { return option->needs(protocol); };
  add(command.add_option("--seeds", options.seeds, "How many runs; 10000, or 1 where --seed is given")
          ->check(whole<std::uint64_t>(1)));
  add(command.add_option("--seed", options.first_seed, "The first run's seed; the others have the next ones")
          ->check(whole<std::uint64_t>(0)));
  add(command.add_flag("--verbose", options.verbose, "Print every event"));
  add(command.add_option("--sabotage", options.sabotage, "What a driver does wrong, to see that the check finds it")
          ->check(CLI::IsMember({"answers-twice", "forgets-a-forward", "closes-alone", "ignores-updates",
                                 "widens-the-window", "hides-its-failure", "does-not-wait", "gives-too-soon",
                                 "skips-a-result", "holds-by-itself"})));
}

}  // namespace

void add_simulate(CLI::App& app, void (*simulate_pool)(const PoolOptions&)) {
  CLI::App* command = app.add_subcommand(
      "simulate", simulate_pool == nullptr ? "Try a protocol in drawn clusters"
                                           : "Predict how a pool would train as machines come, go and change");
  const auto pool = std::make_shared<PoolOptions>();
  const auto protocol = std::make_shared<ProtocolOptions>();
  if (simulate_pool != nullptr) add_pool_options(*command, *pool);
  add_protocol_options(*command, *protocol);
  if (simulate_pool != nullptr) command->get_option("--protocol")->excludes(command->get_option("model"));
  command->footer(text(simulate_pool == nullptr ? "" : kPoolHelp, kProtocolHelp));
  command->callback([=] {
    if (!protocol->protocol.empty()) {
      if (protocol->seeds == 0) protocol->seeds = command->count("--seed") > 0 ? 1 : 10'000;
      return simulate_protocol(*protocol);
    }
    if (simulate_pool == nullptr) throw CLI::RequiredError("--protocol");
    if (pool->archive.empty()) throw CLI::RequiredError("model");
    if (pool->scenario.empty()) throw CLI::RequiredError("scenario");
    simulate_pool(*pool);
  });
}

}  // namespace ravnest::cli
