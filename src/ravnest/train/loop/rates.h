// Learning rates of a node's optimizer, kept in step with what the node has done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ravnest/base/status.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/train/config/config.h"

namespace ravnest::train {

// A function to be called with how many epochs or updates are over, by the thread that steps the optimizer: the
// schedule then has made as many steps. What goes wrong there is a std::runtime_error. kInvalid as make_schedule, and
// for schedules that need a metric. The optimizer outlives the function.
Result<std::function<void(std::uint64_t count)>> make_rates(const LrScheduleConfig& config,
                                                            optim::Optimizer& optimizer);

}  // namespace ravnest::train
