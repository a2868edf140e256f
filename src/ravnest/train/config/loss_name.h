// The losses that have a name, without what they compute.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::train {

enum class LossKind : std::uint8_t {
  kMse,
  kL1,
  kSmoothL1,
  kHuber,
  kCrossEntropy,
  kNll,
  kBce,
  kBceWithLogits,
  kKlDiv,
};

// "mse", "l1", "smooth_l1", "huber", "cross_entropy", "nll", "bce", "bce_with_logits", "kl_div", in the enum's order.
std::span<const std::string_view> loss_names();
std::string_view name(LossKind loss);

// One of the names above, or what torch calls it: the function of torch.nn.functional ("mse_loss",
// "binary_cross_entropy") or the module ("MSELoss", "BCEWithLogitsLoss"). Upper and lower case are the same. kInvalid,
// saying what exists, for anything else.
Result<LossKind> parse_loss(std::string_view written);

}  // namespace ravnest::train
