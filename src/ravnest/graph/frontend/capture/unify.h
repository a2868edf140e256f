// One recording out of several of the same model at different batch sizes.
//
// A model written in C++ computes with sizes in plain integers, which no tracer sees: a recording has them as
// constants. Constants that differ between recordings are the batch at work.
#pragma once

#include <cstdint>
#include <span>

#include "ravnest/base/status.h"
#include "ravnest/graph/frontend/script/recorder.h"

namespace ravnest::graph::script {

// The first recording with such constants computed from the size of dimension 0 of user input `input`.
// kInvalid, with the reason, where the recordings differ in more than whole numbers that are a line over the batch.
Result<Recording> unify(std::span<const Recording> recordings, std::span<const std::int64_t> batches,
                        std::size_t input);

}  // namespace ravnest::graph::script
