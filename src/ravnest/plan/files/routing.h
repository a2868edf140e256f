// Who sends what to whom, as the pickles beside a stage's archive that other tools read. Ravnest itself reads the same
// from the archive.
#pragma once

#include <filesystem>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::plan {

// submod_K_input.pkl: argument position -> {producer stage: output index} or {"model_inputs": index}.
// submod_K_output.pkl: output index -> {"target": [consumer stages]}.
// model_inputs.pkl, for the first stage only: index -> {"target": [later stages that need it too]}.
Status write_routing(const std::vector<ir::Model>& stages, int stage, const std::filesystem::path& folder);

}  // namespace ravnest::plan
