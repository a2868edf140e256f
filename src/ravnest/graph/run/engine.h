// A model, or a stage of one, ready to run: its two graphs compiled, its tensors in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/run/executor.h"

namespace ravnest::graph {

enum class Mode : std::uint8_t { kTrain, kEval };

// One owner; runs are as concurrent as Executor's. The tensors are the engine's own: an optimizer may change them in
// place, the graphs' writes to buffers do.
class Engine {
 public:
  static Result<Engine> load(const std::filesystem::path& archive, c10::Device device = c10::kCPU);
  static Result<Engine> create(ir::Model model, c10::Device device = c10::kCPU);

  // Flat inputs in the order of the call, flat outputs; see Executor::run.
  std::vector<c10::IValue> run(Mode mode, std::vector<c10::IValue> inputs, const RunOptions& options = {}) const;
  // The same on other tensors (another version of the weights), in the order of names().
  std::vector<c10::IValue> run(Mode mode, std::span<const at::Tensor> tensors, std::vector<c10::IValue> inputs,
                               const RunOptions& options = {}) const;

  // Parameters and persistent buffers in the order of the state dict, then constants. Names of one tensor (tied
  // weights) have the same tensor.
  const std::vector<std::string>& names() const { return names_; }
  std::span<const at::Tensor> tensors() const { return tensors_; }
  std::vector<std::pair<std::string, at::Tensor>> parameters() const;
  std::vector<std::pair<std::string, at::Tensor>> buffers() const;  // also those outside of the state dict

  // The indices, among tensors(), of the buffers that a training pass writes to.
  std::vector<std::size_t> written_buffers() const;

  const ir::Graph& graph(Mode mode) const;
  const std::optional<ir::StageInfo>& stage() const { return model_.stage; }
  // Those of ir::Model.
  const std::vector<std::string>& checked_precisions() const { return model_.checked_precisions; }
  c10::Device device() const { return device_; }

  // The model with the tensors' present values, which it shares: write or slice it before they change.
  ir::Model model() const;
  Status save(const std::filesystem::path& archive) const;

  // A copy of the tensors on that device, and graphs that run there.
  Result<Engine> on(c10::Device device) const;

  // The stages for cuts before these operators of the training graph (slice.h), over this engine's own tensors.
  Result<std::vector<Engine>> slice(std::span<const int> positions) const;

 private:
  static Result<Engine> assemble(ir::Model model, std::vector<at::Tensor> tensors, c10::Device device);
  Engine(ir::Model model, std::vector<std::string> names, std::vector<at::Tensor> tensors, Executor train,
         Executor eval, c10::Device device);

  ir::Model model_;  // its payloads are stale; the tensors hold the values
  std::vector<std::string> names_;
  std::vector<at::Tensor> tensors_;
  Executor train_;
  Executor eval_;
  c10::Device device_;
};

}  // namespace ravnest::graph
