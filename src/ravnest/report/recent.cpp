#include "ravnest/report/recent.h"

namespace ravnest::report {

void Recent::restart(TimePoint now) {
  earlier_loss_ = loss();
  earlier_rate_ = samples_per_s();
  slots_.clear();
  since_ = now;
}

void Recent::add(std::uint64_t samples, double loss, TimePoint now) {
  if (slots_.empty() || now - slots_.back().begin >= length_ / 50) slots_.push_back({.begin = now, .end = now});
  Slot& slot = slots_.back();
  slot.end = now;
  slot.samples += samples;
  slot.losses += 1;
  slot.loss_sum += loss;
  while (slots_.size() > 1 && now - slots_.front().end > length_) {
    since_ = slots_.front().end;
    slots_.pop_front();
  }
}

std::optional<double> Recent::loss() const {
  if (slots_.empty()) return earlier_loss_;
  // Summed anew each time: a NaN in a running sum would never leave it.
  double sum = 0;
  std::uint64_t losses = 0;
  for (const Slot& slot : slots_) {
    sum += slot.loss_sum;
    losses += slot.losses;
  }
  return sum / static_cast<double>(losses);
}

double Recent::samples_per_s() const {
  if (slots_.empty()) return earlier_rate_;
  std::uint64_t samples = 0;
  for (const Slot& slot : slots_) samples += slot.samples;
  const double seconds = std::chrono::duration<double>(slots_.back().end - since_).count();
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

}  // namespace ravnest::report
