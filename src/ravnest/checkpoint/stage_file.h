// One stage's weights as its node saves them, in a file that says which part of which training they are.
//
// A safetensors file (safetensors.h), so that other tools read the weights. In its metadata, each a JSON text:
//
//   ravnest.stage    {"version": 1, "plan": "...", "run": "...", "node": "node_1", "cluster": 0, "stage": 1,
//                     "stages": 3, "updates": 120, "nodes": ["node_0", "node_1", "node_2"]}
//   ravnest.order    ["conv.weight", ...]: the keys of the whole model's state dict
//   ravnest.aliases  {"head.weight": "embedding.weight"}: names of a tensor that the file has under another one
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/archive/payload.h"
#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/base/status.h"

namespace ravnest::checkpoint {

struct SavedStage {
  std::string plan;
  std::string run;
  std::string node;  // who saved it
  int cluster = 0;
  int stage = 0;
  int stages = 1;  // of the cluster
  std::uint64_t updates = 0;
  std::vector<std::string> order;  // keys of the whole model's state dict
  archive::NamedPayloads weights;  // of this stage, by those keys
  std::vector<std::string> nodes;  // of the cluster's stages in turn, for messages; may be left empty
};

// "trained/cluster_0/node_1.safetensors"
std::filesystem::path stage_file(const std::filesystem::path& trained, int cluster, std::string_view node_name);

// Makes the folders that are missing. The file appears whole or not at all: where writing fails, a full disk among the
// reasons, what an earlier call saved is still there. Names that share one tensor (ir::same_tensor) are written once.
// kInvalid where the stage's numbers or names contradict each other, else as write_safetensors. Two calls for one path
// do not disturb each other: the last one wins.
Status save_stage(const std::filesystem::path& path, const SavedStage& saved);

// What save_stage wrote: the weights contiguous, in the model's order, and on the mapped file, with tied names on one
// storage; whether one is a parameter or wants a gradient is not kept. kInvalid for a safetensors file of something
// else, kUnsupported for one of a later version, kCorrupt, with file and place, where it contradicts itself.
Result<SavedStage> load_stage(const std::filesystem::path& path);

// The same in two steps, for whoever has to tell stages from other files.
bool is_saved_stage(const archive::Safetensors& contents);
Result<SavedStage> saved_stage(archive::Safetensors contents, const std::filesystem::path& path);

}  // namespace ravnest::checkpoint
