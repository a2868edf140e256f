// What is trained on, row by row.
#pragma once

#include "ravnest/data/array.h"

namespace ravnest::data {

// Samples with what belongs to them, row by row.
struct Samples {
  Array inputs;
  Array targets;
};

}  // namespace ravnest::data
