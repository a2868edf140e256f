// A checkpoint for other programs: what PyTorch's own load functions take.
#pragma once

#include <filesystem>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/assemble.h"

namespace ravnest::checkpoint {

// The model's state dict: its own keys, in its order, tied names tied. All files appear whole or not at all.
// For torch.load(PATH, weights_only=True) and load_state_dict(strict=True).
Status export_state_dict(const Whole& whole, const std::filesystem::path& path);
// As one safetensors file; tied names are written each, so that load_state_dict(strict=True) finds them.
Status export_safetensors(const Whole& whole, const std::filesystem::path& path);

// Which parameters the optimizer was given that it does not train.
enum class Frozen : unsigned char {
  kLeftOut,   // SGD([p for p in model.parameters() if p.requires_grad])
  kIncluded,  // SGD(model.parameters())
};

// The optimizer's state: {"state": {0: {"exp_avg": tensor, ...}, ...}, "param_groups": [{"lr": 0.001, "params": [0,
// 1]}]}, which torch.optim's load_state_dict takes of torch.load(PATH, weights_only=True).
//
// torch knows parameters by their number: counted over the groups, in each in the order in which the optimizer was
// given them. That order is taken to be model.parameters()', which is the order of the state dict without its buffers,
// tied parameters at their first name. kInvalid where no optimizer was saved, and for frozen parameters with several
// groups, of which nobody knows which they are in.
Status export_optimizer(const Whole& whole, const std::filesystem::path& path, Frozen frozen = Frozen::kLeftOut);

}  // namespace ravnest::checkpoint
