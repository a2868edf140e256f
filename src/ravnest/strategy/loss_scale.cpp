#include "ravnest/strategy/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace ravnest::strategy {
namespace {

// A loss that is never finite must not end in a scale of 0, nor gradients of 0 in an infinite one: both would turn all
// later gradients into NaN.
constexpr double kLeast = 0x1p-24;
constexpr double kMost = 0x1p+64;

}  // namespace

bool LossScale::go_on(const State& state) {
  int exponent = 0;
  if (!(state.scale >= kLeast && state.scale <= kMost) || std::frexp(state.scale, &exponent) != 0.5) return false;
  scale_ = state.scale;
  good_ = state.good;
  skipped_ = state.skipped;
  return true;
}

void LossScale::on_update(bool finite) {
  if (!finite) {
    ++skipped_;
    good_ = 0;
    scale_ = std::max(kLeast, scale_ / 2);
    return;
  }
  if (++good_ < options_.growth_interval) return;
  good_ = 0;
  scale_ = std::min(kMost, scale_ * 2);
}

}  // namespace ravnest::strategy
