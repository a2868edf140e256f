// What torch throws, and functions of the user's, as a failure in their own words.
#pragma once

#include <c10/util/Exception.h>

#include <stdexcept>

#include "ravnest/base/status.h"
#include "ravnest/worker/out_of_memory.h"

namespace ravnest::train {

template <class Compute>
auto plainly(const Compute& compute) -> decltype(compute()) {
  try {
    return compute();
  } catch (const c10::Error& error) {
    return worker::torch_failure(error,
                                 "a smaller batch_size, with update_frequency for as many samples in an update, or "
                                 "precision = \"bf16\"");
  } catch (const std::runtime_error& error) {
    return internal(error.what());
  }
}

}  // namespace ravnest::train
