// Host lists as Slurm writes them: "n[01-03,7],gpu-a,rack[1-2]-b[0-1]".
#pragma once

#include <string>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::strategy {

// The list's first host: of each pair of brackets the first number, as it is written. kInvalid for what is no list.
Result<std::string> first_host(std::string_view list);

}  // namespace ravnest::strategy
