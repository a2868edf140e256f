// What is trained on, row by row.
#pragma once

#include "ravnest/archive/array.h"

namespace ravnest::data {

// Samples with what belongs to them, row by row.
struct Samples {
  archive::Array inputs;
  archive::Array targets;
};

}  // namespace ravnest::data
