// Tensors that have several names: written once, and tied again when they are read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ravnest/archive/payload.h"
#include "ravnest/base/json_field.h"

namespace ravnest::checkpoint {

struct Untied {
  archive::NamedPayloads tensors;              // each once, under its first name
  std::map<std::string, std::string> aliases;  // its other names: that first one
};

Untied without_aliases(const archive::NamedPayloads& weights);

// Puts the other names behind the tensors. Throws DecodeError (json_field.h) where they contradict the tensors.
void add_aliases(const Field& aliases, archive::NamedPayloads& weights);

// Into this order; what is not in it comes last.
void sort_by(const std::vector<std::string>& order, archive::NamedPayloads& weights);

}  // namespace ravnest::checkpoint
