// From a model that can be recorded and run to a captured one: both modes, any batch size, checked.
#pragma once

#include <functional>

#include "ravnest/base/status.h"
#include "ravnest/graph/engine.h"
#include "ravnest/graph/script/example.h"
#include "ravnest/graph/script/recorder.h"
#include "ravnest/graph/script/weights.h"

namespace ravnest::graph::script {

struct Subject {
  Example example;
  Weights weights;
  // The forward on these inputs, in this mode, as a recording. May throw Refusal, or what the model throws.
  std::function<Recording(Mode, const Leaves&)> record;
  // The model's own forward; its buffers may change. May throw.
  std::function<c10::IValue(Mode, const Leaves&)> run;
  bool records_sizes = true;  // false: a recording has the batch size as a constant
};

// The model's buffers and the process's generators are as before, whatever comes of it.
Result<ir::Model> capture(const Subject& subject);

// Whether the captured model does what the model itself does, in both modes: outputs, gradients of all parameters for a
// loss over all outputs, and buffers, all from one seed. kInvalid with what differs.
Status check_agreement(const ir::Model& model, const Subject& subject, const Leaves& inputs);

}  // namespace ravnest::graph::script
