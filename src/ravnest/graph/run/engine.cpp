#include "ravnest/graph/run/engine.h"

#include <algorithm>
#include <map>
#include <set>

#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/operators/operators.h"
#include "ravnest/graph/operators/tensors.h"
#include "ravnest/graph/run/autocast.h"

namespace ravnest::graph {

Engine::Engine(ir::Model model, std::vector<std::string> names, std::vector<at::Tensor> tensors, Executor train,
               Executor eval, c10::Device device)
    : model_(std::move(model)),
      names_(std::move(names)),
      tensors_(std::move(tensors)),
      train_(std::move(train)),
      eval_(std::move(eval)),
      device_(device) {}

Result<Engine> Engine::load(const std::filesystem::path& archive, c10::Device device) {
  Result<ir::Model> model = ir::read_archive(archive);
  if (!model.ok()) return model.status();
  Result<Engine> engine = create(std::move(*model), device);
  if (!engine.ok()) return engine.status().with_context(archive.string());
  return engine;
}

Result<Engine> Engine::create(ir::Model model, c10::Device device) {
  std::vector<at::Tensor> tensors = materialize(model.weights, device);
  for (at::Tensor& constant : materialize(model.constants, device)) tensors.push_back(std::move(constant));
  return assemble(std::move(model), std::move(tensors), device);
}

Result<Engine> Engine::assemble(ir::Model model, std::vector<at::Tensor> tensors, c10::Device device) {
  std::vector<std::string> names;
  for (archive::NamedPayloads* payloads : {&model.weights, &model.constants}) {
    for (auto& [name, payload] : *payloads) {
      names.push_back(name);
      payload.storage = nullptr;  // lets go of the archive's mapping
    }
  }
  Result<Executor> train = Executor::compile(std::make_shared<ir::Graph>(model.train), names, device);
  if (!train.ok()) return train.status().with_context("training graph");
  Result<Executor> eval = Executor::compile(std::make_shared<ir::Graph>(model.eval), names, device);
  if (!eval.ok()) return eval.status().with_context("eval graph");
  return Engine(std::move(model), std::move(names), std::move(tensors), std::move(*train), std::move(*eval), device);
}

std::vector<c10::IValue> Engine::run(Mode mode, std::vector<c10::IValue> inputs, const RunOptions& options) const {
  return run(mode, tensors_, std::move(inputs), options);
}

std::vector<c10::IValue> Engine::run(Mode mode, std::span<const at::Tensor> tensors, std::vector<c10::IValue> inputs,
                                     const RunOptions& options) const {
  if (model_.stage && !graph(mode).autocasts.empty())
    hide_from_cast_cache(inputs, (mode == Mode::kTrain ? model_.stage->train : model_.stage->eval).inputs);
  return (mode == Mode::kTrain ? train_ : eval_).run(tensors, std::move(inputs), options);
}

std::vector<std::pair<std::string, at::Tensor>> Engine::parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (std::size_t i = 0; i < model_.weights.size(); ++i) {
    if (model_.weights[i].second.is_parameter) result.emplace_back(names_[i], tensors_[i]);
  }
  return result;
}

std::vector<std::pair<std::string, at::Tensor>> Engine::buffers() const {
  std::set<std::string> not_persistent;
  for (const ir::Graph* graph : {&model_.train, &model_.eval}) {
    for (const ir::Input& input : graph->inputs) {
      if (input.kind == ir::InputKind::kBuffer && !input.persistent) not_persistent.insert(input.target);
    }
  }
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const bool is_buffer =
        i < model_.weights.size() ? !model_.weights[i].second.is_parameter : not_persistent.contains(names_[i]);
    if (is_buffer) result.emplace_back(names_[i], tensors_[i]);
  }
  return result;
}

const ir::Graph& Engine::graph(Mode mode) const { return mode == Mode::kTrain ? model_.train : model_.eval; }

ir::Model Engine::model() const {
  ir::Model model = model_;
  std::vector<archive::Payload> payloads = to_payloads(tensors_);
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    const bool is_weight = i < model.weights.size();
    archive::Payload& own = is_weight ? model.weights[i].second : model.constants[i - model.weights.size()].second;
    payloads[i].is_parameter = own.is_parameter;
    own = std::move(payloads[i]);
  }
  return model;
}

std::vector<std::size_t> Engine::written_buffers() const {
  std::set<std::size_t> written;
  const ir::Graph& train = graph(Mode::kTrain);
  for (const ir::Operator& op : train.operators) {
    if (is_size_operator(op.target)) continue;
    const auto effects = effects_of(op);
    TORCH_CHECK(effects.ok(), effects.status().message());
    for (const ir::Input& input : train.inputs) {
      if (input.kind != ir::InputKind::kBuffer || std::ranges::count(effects->writes, input.value) == 0) continue;
      written.insert(static_cast<std::size_t>(std::ranges::find(names_, input.target) - names_.begin()));
    }
  }
  return {written.begin(), written.end()};
}

Status Engine::save(const std::filesystem::path& archive) const { return ir::write_archive(model(), archive); }

Result<Engine> Engine::on(c10::Device device) const { return create(model(), device); }

Result<std::vector<Engine>> Engine::slice(std::span<const int> positions) const {
  Result<std::vector<ir::Model>> models = graph::slice(model(), positions);
  if (!models.ok()) return models.status();
  std::map<std::string, at::Tensor> own;
  for (std::size_t i = 0; i < names_.size(); ++i) own.emplace(names_[i], tensors_[i]);
  std::vector<Engine> stages;
  for (ir::Model& stage : *models) {
    std::vector<at::Tensor> tensors;
    for (const archive::NamedPayloads* payloads : {&stage.weights, &stage.constants}) {
      for (const auto& [name, payload] : *payloads) tensors.push_back(own.at(name));
    }
    Result<Engine> engine = assemble(std::move(stage), std::move(tensors), device_);
    if (!engine.ok()) return engine.status();
    stages.push_back(std::move(*engine));
  }
  return stages;
}

}  // namespace ravnest::graph
