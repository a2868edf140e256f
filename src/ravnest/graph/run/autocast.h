// The torch.autocast blocks of a graph, entered and left while it runs. Private to the executor and the engine.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph {

struct AutocastBlock {
  c10::DeviceType device_type = c10::DeviceType::CPU;
  c10::ScalarType dtype = c10::ScalarType::BFloat16;
  bool enabled = true;
  bool cache = true;
  std::int32_t parent = -1;
};

// The graph's blocks for a run on `device`. A block for the kind of device that the graph's own tensors were captured
// on holds for `device` instead; one for another kind stays, and does there what it does in PyTorch. kUnsupported where
// torch has no autocast for a block's device.
Result<std::vector<AutocastBlock>> resolve_autocasts(const ir::Graph& graph, c10::Device device);

// Where a run stands among the blocks, on the running thread. Blocks are entered and left as Python's `with` does, so
// that settings, nesting and the lifetime of cast weights are those of PyTorch; the destructor leaves all.
class AutocastPosition {
 public:
  // `blocks` must outlive this.
  explicit AutocastPosition(const std::vector<AutocastBlock>& blocks) : blocks_(blocks) {}
  AutocastPosition(const AutocastPosition&) = delete;
  AutocastPosition& operator=(const AutocastPosition&) = delete;
  ~AutocastPosition();

  std::int32_t block() const { return entered_.empty() ? -1 : entered_.back().block; }
  void move_to(std::int32_t block);

 private:
  struct Entered {
    std::int32_t block = -1;
    bool enabled = false;  // what was set before
    c10::ScalarType dtype = c10::ScalarType::BFloat16;
    bool cache = true;
  };
  void enter(std::int32_t block);
  void leave();
  bool lies_in(std::int32_t block, std::int32_t around) const;

  const std::vector<AutocastBlock>& blocks_;
  std::vector<Entered> entered_;
};

// Autocast casts a leaf that needs a gradient once per block, and so adds up its gradients in the low precision. In the
// whole model only weights are such leaves; a stage's inputs, which other stages made, must not become ones.
// `inputs` are those of a stage with this routing.
void hide_from_cast_cache(std::vector<c10::IValue>& inputs, const std::vector<ir::Source>& sources);

}  // namespace ravnest::graph
