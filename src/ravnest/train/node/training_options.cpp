#include "ravnest/train/node/training_options.h"

#include "ravnest/optim/clip.h"

namespace ravnest::train {

std::function<void(std::vector<at::Tensor>& gradients)> TrainingOptions::clipping() const {
  if (clip_value <= 0 && clip_norm <= 0) return {};
  return [value = clip_value, norm = clip_norm](std::vector<at::Tensor>& own) {
    if (value > 0) optim::clip_by_value(own, value);
    if (norm > 0) optim::scale_to_norm(own, norm, optim::gradient_norm(own));
  };
}

}  // namespace ravnest::train
