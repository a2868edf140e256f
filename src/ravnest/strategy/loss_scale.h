// The loss scale of fp16: losses are multiplied by it, so that small gradients do not vanish in 16 bits.
//
// It grows until gradients overflow, as torch.amp.GradScaler's does: doubled after 2000 good updates in a row, halved
// where an update's gradients are not finite, which is then skipped. Every rank sees the same reduced gradients, so all
// have the same scale without a word. A power of two, so that scaling rounds nothing. Not thread-safe.
#pragma once

#include <cstdint>

namespace ravnest::strategy {

struct LossScaleOptions {
  double initial = 65536;
  std::uint64_t growth_interval = 2000;  // good updates in a row
};

class LossScale {
 public:
  explicit LossScale(LossScaleOptions options = {}) : options_(options), scale_(options.initial) {}

  // Where it stands, for checkpoints.
  struct State {
    double scale = 0;
    std::uint64_t good = 0;
    std::uint64_t skipped = 0;
  };
  State state() const { return {scale_, good_, skipped_}; }
  // Goes on from there. False, and nothing is changed, for a scale that it can not have.
  bool go_on(const State& state);

  double scale() const { return scale_; }
  // Of updates.
  std::uint64_t skipped() const { return skipped_; }
  // After the gradients of an update were looked at.
  void on_update(bool finite);

 private:
  LossScaleOptions options_;
  double scale_;
  std::uint64_t good_ = 0;  // since the scale has changed
  std::uint64_t skipped_ = 0;
};

}  // namespace ravnest::strategy
