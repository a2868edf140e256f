// From a model that can be recorded and run to a captured one: both modes, any batch size, checked.
#pragma once

#include <functional>

#include "ravnest/base/log.h"
#include "ravnest/base/status.h"
#include "ravnest/graph/frontend/capture/example.h"
#include "ravnest/graph/frontend/script/recorder.h"
#include "ravnest/graph/frontend/script/weights.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/graph/run/random.h"

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

// `log` hears where the result is equal to the model within rounding only. The model's buffers and the process's
// generators are as before, whatever comes of it.
Result<ir::Model> capture(const Subject& subject, const Logger& log);

// Whether the captured model does what the model itself does, in both modes: outputs, gradients of all parameters for a
// loss over all outputs, and buffers, all from one seed, by the rule of closeness.h. Nothing where all are equal to the
// bit, a sentence for people where rounding keeps them apart, kInvalid with what differs and what was found out about
// it where they differ. `generator` is of the model's device.
Result<std::string> check_equivalence(const ir::Model& model, const Subject& subject, const Leaves& inputs,
                                      KeyedGenerator& generator);

}  // namespace ravnest::graph::script
