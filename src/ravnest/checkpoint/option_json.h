// An optimizer's options as JSON, which keeps their kinds: 1.0 does not become 1.
//
// true, 3, 0.001, "text", [0.9, 0.999]. Numbers that JSON does not have are {"number": "NaN"}, so that no text is taken
// for one; in a list, which has numbers only, they are "NaN", "Infinity" and "-Infinity".
#pragma once

#include <nlohmann/json.hpp>

#include "ravnest/base/json_field.h"
#include "ravnest/optim/options.h"

namespace ravnest::checkpoint {

nlohmann::json options_to_json(const optim::Options& options);
// Throws DecodeError.
optim::Options options_from(const Field& field);

}  // namespace ravnest::checkpoint
