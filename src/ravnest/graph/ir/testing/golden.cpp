#include "ravnest/graph/ir/testing/models.h"

namespace ravnest::ir::testing {

std::filesystem::path golden(std::string_view name) {
  return std::filesystem::path(RAVNEST_GOLDEN_FOLDER) / (std::string(name) + ".pt2");
}

}  // namespace ravnest::ir::testing
