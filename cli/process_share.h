// What a node's process takes before it holds anything of a model.
#pragma once

#include <string>

#include "ravnest/base/status.h"

namespace ravnest::cli {

struct ProcessShare {
  double gb = 0;   // 10^9 bytes, the most that was resident
  std::string of;  // "Python with torch and ravnest", or "this program, as `ravnest node` takes it"
};

// Of Python, where one stands beside this program and has ravnest; else of this process as it is, which has to have
// used torch by now. An optimizer that only torch can step comes on top. Takes a few seconds. kUnavailable where the
// kernel does not tell.
Result<ProcessShare> measure_process();

}  // namespace ravnest::cli
