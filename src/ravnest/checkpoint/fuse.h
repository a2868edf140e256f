// The saved stages of one cluster, merged into the state dict of the whole model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "ravnest/base/status.h"

namespace ravnest::checkpoint {

struct FuseOptions {
  std::filesystem::path trained = "trained";
  int cluster = 0;
  bool safetensors = false;  // also as trained_state_dict.safetensors
};

// What was written.
struct Fused {
  std::filesystem::path state_dict;   // trained/trained_state_dict.pt
  std::filesystem::path safetensors;  // empty where it was not asked for
  std::size_t tensors = 0;            // keys of the state dict
  std::uint64_t bytes = 0;            // size of the .pt file
};

// Reads the stages in `trained/cluster_N/` and writes `trained/trained_state_dict.pt` (state_dict.h): the keys, sizes
// and types of the model's own state dict, in its order, tied weights tied. Files that are no saved stages are ignored.
//
// Nothing is written unless all stages are there, each once, of one plan, one run and one update, and have every key
// of the model between them. kNotFound names the stages that are missing, kInvalid those that do not belong together,
// with both values; kCorrupt is for a damaged file, a weight that two stages have with different values, and a key that
// no stage has. Should the disk fail in the last moment, at the flush of the second of two files, the first is there.
Result<Fused> fuse(const FuseOptions& options);

}  // namespace ravnest::checkpoint
