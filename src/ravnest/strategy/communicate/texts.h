// Texts that ranks tell each other: settings to compare, reasons.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/strategy/communicate/communicator.h"
#include "ravnest/strategy/communicate/waiter.h"

namespace ravnest::strategy {

inline constexpr std::int64_t kLongestText = 1 << 20;

// Each rank's text, by rank, on all of them. `device` is the communicator's. kInvalid where one is longer than
// kLongestText: all ranks make room for what each says that it has.
Result<std::vector<std::string>> gather_texts(Communicator& communicator, const std::string& own, c10::Device device,
                                              const Waiter& wait);

}  // namespace ravnest::strategy
