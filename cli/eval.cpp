// `ravnest eval`: how good a model is on the validation data.
#include <iomanip>
#include <iostream>
#include <memory>

#include "commands.h"
#include "eval_model.h"
#include "progress.h"
#include "ravnest/object_store/cache.h"
#include "store_options.h"

namespace ravnest::cli {
namespace {

// Weights that are an object are fetched first, into the cache.
std::filesystem::path fetched(const std::string& url) {
  const auto name = require(object_store::parse_s3_url(url));
  const auto cache = require(object_store::cache_folder(own_environment()));
  const auto store = open_store({});
  const Interruptible line("fetching " + shown(name));
  auto path = object_store::cached_file(*store, name, cache, [&](std::uint64_t done, std::uint64_t all) {
    return line.report(all == 0 ? 0 : static_cast<double>(done) / static_cast<double>(all));
  });
  line.finish(path.ok());
  return require(std::move(path));
}

void run_eval(EvalRequest request) {
  if (object_store::is_s3_url(request.weights.string())) request.weights = fetched(request.weights.string());
  const EvalResult result = require(eval_model(request));
  std::cout << std::fixed;
  if (result.accuracy) std::cout << "accuracy " << std::setprecision(2) << *result.accuracy << " %, ";
  std::cout << "loss " << std::setprecision(4) << result.loss << " over " << result.samples << " samples" << std::endl;
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Evaluate a model on the validation data, in one process");
  const auto request = std::make_shared<EvalRequest>();
  command->add_option("model", request->model, "The captured model, a .pt2 archive")->required();
  command->add_option("--config", request->config, "The train.toml with [validation] and the loss")
      ->capture_default_str();
  command->add_option("--weights", request->weights,
                      "Weights to evaluate in place of the archive's: a state dict, as .safetensors or of torch.save "
                      "(.pt, .pth, .bin); a file, or s3://BUCKET/KEY");
  command->add_option("--weights-entry", request->weights_entry,
                      "Which of several state dicts in that file, such as model_state_dict of a checkpoint");
  command->footer(
      "Weights of a run come from `ravnest fuse`. Files of torch.save are read without running the pickle in them.\n"
      "\n"
      "Examples:\n"
      "  ravnest fuse\n"
      "  ravnest eval model.pt2 --weights trained/trained_state_dict.pt\n"
      "  ravnest eval model.pt2 --weights checkpoint.pt --weights-entry ema\n"
      "  ravnest eval model.pt2 --weights s3://lab/run_7/trained_state_dict.pt\n"
      "  ravnest eval model.pt2 --config other.toml      before training: how good is it by chance?");
  command->callback([request] { run_eval(*request); });
}

}  // namespace ravnest::cli
