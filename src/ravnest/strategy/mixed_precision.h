// What a step computes in: 32 bits, or 16 bits beside 32-bit weights, as FSDP2's MixedPrecisionPolicy has it.
//
// The engine's weights stay in 32 bits: they are what the optimizer changes, what is saved and what ranks compare. The
// graph runs on 16-bit copies of them, made anew once after each update. Floating inputs are cast to 16 bits, and
// outputs back to 32, so that losses are computed there. Buffers stay as they are. So do parameters that a batch norm
// reads, since torch's takes 16-bit samples with 32-bit weights and statistics, but no mixture of the two.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/run/engine.h"

namespace ravnest::strategy {

enum class Precision : std::uint8_t { kFloat32, kBf16, kFp16 };

Result<Precision> parse_precision(std::string_view name);  // "float32", "bf16", "fp16"
std::string_view precision_name(Precision precision);

// The engine's parameters that stay in 32 bits, by name.
std::set<std::string> kept_in_float32(const graph::Engine& engine);

// A captured graph computes in other types than it was captured in only where it has none of its own. Fails where the
// model was not checked for that precision at its capture, and an operator names a floating type; `model` says which
// file it is.
Status check_precision(const graph::Engine& engine, Precision precision, std::string_view model);

// For one thread. The engine outlives it.
class MixedPrecision {
 public:
  MixedPrecision(const graph::Engine& engine, Precision precision);

  // What the graph runs on, in the order of Engine::tensors(); of the trained ones each is a leaf that requires a
  // gradient. The copies are made anew where a weight has changed: since `weights_changed`, or as its version says.
  std::span<const at::Tensor> tensors();
  void weights_changed() { is_fresh_ = false; }

  std::vector<c10::IValue> inputs(std::vector<c10::IValue> given) const;
  std::vector<c10::IValue> outputs(std::vector<c10::IValue> made) const;
  // How the graph is to be run.
  graph::RunOptions run_options() const;

 private:
  std::optional<at::ScalarType> type_;  // none: 32 bits, and no copies
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> weights_;  // those with copies, each once
  std::vector<at::Tensor> copies_;
  std::vector<std::uint32_t> versions_;  // of the weights, when they were copied
  bool is_fresh_ = false;
};

}  // namespace ravnest::strategy
