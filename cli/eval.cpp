// `ravnest eval`: how good a model is on the validation data.
#include <iomanip>
#include <iostream>
#include <memory>

#include "commands.h"
#include "eval_model.h"

namespace ravnest::cli {
namespace {

void run_eval(const EvalRequest& request) {
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
                      "(.pt, .pth, .bin)");
  command->add_option("--weights-entry", request->weights_entry,
                      "Which of several state dicts in that file, such as model_state_dict of a checkpoint");
  command->footer(
      "Weights of a run come from `ravnest fuse`. Files of torch.save are read without running the pickle in them.\n"
      "\n"
      "Examples:\n"
      "  ravnest fuse\n"
      "  ravnest eval model.pt2 --weights trained/trained_state_dict.pt\n"
      "  ravnest eval model.pt2 --weights checkpoint.pt --weights-entry ema\n"
      "  ravnest eval model.pt2 --config other.toml      before training: how good is it by chance?");
  command->callback([request] { run_eval(*request); });
}

}  // namespace ravnest::cli
