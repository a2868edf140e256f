#include "eval_model.h"

#include <ATen/Parallel.h>

#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/weights.h"
#include "ravnest/train/config/config.h"
#include "ravnest/train/loop/evaluate.h"
#include "ravnest/train/node/device.h"

namespace ravnest::cli {
namespace {

Result<ir::Model> read_model(const EvalRequest& request) {
  auto model = ir::read_archive(request.model);
  if (!model.ok()) return model;
  if (model->stage)
    return invalid(request.model.string(), " is a stage of a model; give the archive that capture wrote");
  if (request.weights.empty()) {
    if (!request.weights_entry.empty())
      return invalid("--weights-entry says which entry of a file; give that file as --weights");
    return model;
  }
  const Status loaded = ir::load_weights(*model, request.weights, request.weights_entry);
  if (!loaded.ok()) return loaded;
  return model;
}

Result<graph::Engine> load(const EvalRequest& request, c10::Device device) {
  if (Status there = train::check_device(device); !there.ok()) return there;
  auto model = read_model(request);
  if (!model.ok()) return model.status();
  try {
    return graph::Engine::create(std::move(*model), device);
  } catch (const c10::Error& error) {
    return unavailable("cannot load ", request.model.string(), " to the device ", device.str(), ": ",
                       error.what_without_backtrace());
  }
}

}  // namespace

Result<EvalResult> eval_model(const EvalRequest& request) {
  const auto config = train::read_train_config(request.config);
  if (!config.ok()) return config.status();
  if (!config->validation)
    return invalid(request.config.string(), " has no [validation]: give it the data to evaluate on, as in [data]");
  if (config->threads > 0) at::set_num_threads(config->threads);
  const auto engine = load(request, c10::Device(config->device));
  if (!engine.ok()) return engine.status();
  auto samples = data::load_dataset(config->validation->options);
  if (!samples.ok()) return config->validation->lines.at(samples.status());
  const std::int64_t size = samples->size();
  const train::BatchedData data{std::move(*samples), data::Batches(size, config->batch_size, false, config->seed)};
  const auto result = train::evaluate(*engine, data, config->loss, {});
  if (!result.ok()) return result.status();
  return EvalResult{result->samples, result->accuracy, result->loss};
}

}  // namespace ravnest::cli
