// Whether this machine has what a config asks for.
#pragma once

#include <c10/core/Device.h>

#include "ravnest/base/status.h"

namespace ravnest::train {

// kUnavailable, with how many there are, for a GPU that is not here or that this torch cannot use.
Status check_device(c10::Device device);

}  // namespace ravnest::train
