// What torch throws where there is not enough memory, as a failure that says how much was asked for and what there is.
#pragma once

#include <c10/util/Exception.h>

#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::worker {

// Whether it is that, of a GPU or of the host.
bool is_out_of_memory(const c10::Error& error);

// In torch's own words, up to the numbers; torch goes on with what its allocator holds. `what_helps` are settings, as
// people write them.
Status out_of_memory(const c10::Error& error, std::string_view what_helps);

// Any error of torch's in its own words, on one line, without the frames of its stack.
Status torch_failure(const c10::Error& error, std::string_view what_helps_memory);

}  // namespace ravnest::worker
