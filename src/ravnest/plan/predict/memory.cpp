#include "ravnest/plan/predict/memory.h"

namespace ravnest::plan {

StageMemory stage_memory(const StageLoad& load, const Machine& machine, const StagePlace& place,
                         const TrainingAssumptions& options) {
  const int passes = passes_in_flight(place);
  StageMemory memory;
  memory.weights = load.stored_bytes;
  memory.gradients = load.trainable_bytes;
  memory.optimizer = static_cast<std::int64_t>(static_cast<double>(load.trainable_bytes) * options.optimizer_state);
  memory.versions = (passes - 1) * load.trainable_bytes;
  memory.activations =
      passes * load.saved_bytes + load.working_bytes + load.received_bytes + load.returned_bytes + load.kept_bytes;
  memory.process = static_cast<std::int64_t>(machine.process_bytes);
  return memory;
}

}  // namespace ravnest::plan
