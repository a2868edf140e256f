// One tensor out of what several parts have of it. Only for this room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ravnest/archive/payload.h"
#include "ravnest/checkpoint/part_file.h"

namespace ravnest::checkpoint {

struct Contribution {
  const archive::Payload* payload;
  const std::string* part;  // its name
  const Piece* piece;       // null for the whole tensor
};

// The first one, where all are whole: kCorrupt where another has other values, with both parts. Pieces are copied into
// one tensor: kNotFound where elements are missing, kCorrupt where pieces contradict each other. `what` is the tensor
// in messages; at least one contribution.
Result<archive::Payload> join(const std::vector<Contribution>& contributions, std::string_view what);

}  // namespace ravnest::checkpoint
