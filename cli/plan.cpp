// `ravnest plan`: from a model and a pool file to node_data.
#include "ravnest/plan/plan.h"

#include "commands.h"
#include "cut_model.h"
#include "progress.h"
#include "ranges.h"
#include "ravnest/base/file.h"
#include "ravnest/codec/codec.h"
#include "ravnest/plan/show/explain.h"
#include "ravnest/plan/show/svg.h"

namespace ravnest::cli {
namespace {

struct PlanOptions {
  PlanRequest request;
  std::string balance;
  std::string compression = "none";
  std::filesystem::path svg;
  bool quiet = false;
  bool dry_run = false;
};

void run_plan(PlanOptions options) {
  if (!options.balance.empty()) options.request.form.balance = require(plan::parse_balance(options.balance));
  options.request.form.training.sent_share = codec::encoded_share(require(codec::parse_codec(options.compression)));
  options.request.write = !options.dry_run;
  const Interruptible search("planning");
  options.request.form.progress = [&](double share) { return search.report(share); };
  const Result<plan::Plan> planned = make_plan(options.request);
  search.finish(planned.ok());
  const plan::Plan made = require(planned);
  std::cout << plan::memory_line(made) << "\n\n";
  if (!options.quiet) std::cout << plan::node_blocks(made) << "\n\n";
  std::cout << plan::explain(made) << '\n';
  if (!options.svg.empty()) {
    require(write_file_atomically(options.svg, plan::to_svg(made)));
    std::cout << "the drawing is in " << options.svg.string() << '\n';
  }
  if (options.dry_run)
    std::cout << "nothing was written to " << options.request.node_data.string() << '\n';
  else
    std::cout << "the plan is in " << options.request.node_data.string() << '\n';
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Plan which node of the pool trains which part of a model");
  const auto options = std::make_shared<PlanOptions>();
  plan::FormOptions& form = options->request.form;
  command->add_option("model", options->request.archive, "The captured model, a .pt2 archive")->required();
  command->add_option("--pool", options->request.pool_file, "The pool file (default: node_configs.json in node_data)");
  command->add_option("--node-data", options->request.node_data, "The folder to write the plan to")
      ->capture_default_str();
  command->add_option("--balance", options->balance,
                      "What the cut balances: params (shares by RAM), time (the slowest stage) or memory (the fullest "
                      "node). Default: time where every node's compute is known, else params");
  command->add_option("--min-cluster-size", form.min_cluster_size, "The fewest nodes of a cluster")
      ->capture_default_str()
      ->check(whole(1));
  command->add_flag("--use-all", form.use_all,
                    "Cut by time: keep nodes that make the pool slower, instead of leaving them out as spares");
  command->add_option("--seed", form.seed, "Seed of the search for clusters; the same seed gives the same plan")
      ->capture_default_str()
      ->check(whole<std::uint64_t>(0));
  command
      ->add_option("--optimizer-state", form.training.optimizer_state,
                   "Bytes that the optimizer keeps per byte of weights: 2 for Adam, 1 for momentum, 0 for SGD")
      ->capture_default_str()
      ->check(at_least(0));
  command->add_option("--average-every", form.training.updates_per_round, "Updates between two averagings of clusters")
      ->capture_default_str()
      ->check(whole(1));
  command
      ->add_option("--compression", options->compression,
                   "Compression of what nodes send each other: none, fp16, bf16, int8, int4 or topk:SHARE")
      ->capture_default_str();
  command->add_option("--svg", options->svg, "Draw the clusters, stages and rings into this file");
  command->add_flag("--dry-run", options->dry_run, "Only show the plan; node_data stays as it is");
  command->add_flag("--quiet", options->quiet, "Leave out the block of every node");
  command->footer(
      "Reads node_data/node_configs.json:\n"
      "  {\"0\": {\"IP\": \"10.0.0.5:8080\", \"benchmarks\": {\"ram\": 8, \"bandwidth\": 100}},\n"
      "   \"1\": {\"IP\": \"10.0.0.7:8080\", \"benchmarks\": {\"ram\": 16, \"bandwidth\": 100}}}\n"
      "\n"
      "Examples:\n"
      "  ravnest plan model.pt2\n"
      "  ravnest plan model.pt2 --pool lab.json --balance memory --svg plan.svg\n"
      "  ravnest plan model.pt2 --min-cluster-size 1        nodes that hold the model alone may stay alone");
  command->callback([options] { run_plan(*options); });
}

}  // namespace ravnest::cli
