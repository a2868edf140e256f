// Which names of the model are names of one tensor, as all parts together say. Only for this room.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "ravnest/checkpoint/part_file.h"

namespace ravnest::checkpoint {

// Two names are of one tensor where they are in one part, or where a third one is the same as either.
class SameTensors {
 public:
  explicit SameTensors(const std::vector<Part>& parts);

  // The one of a tensor's names that comes first in the model's order; of a name that is not known, itself.
  const std::string& first_name(const std::string& name) const;

 private:
  std::map<std::string, std::string> first_names_;  // of those that are not their tensor's first
};

}  // namespace ravnest::checkpoint
