// What happened in the last seconds: the mean loss and the samples per second.
//
// Memory is bounded however many losses come. Times never go back. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "ravnest/base/clock.h"

namespace ravnest::report {

class Recent {
 public:
  explicit Recent(Duration length) : length_(length) {}

  // From here on. What was found before stays valid until the first `add`: a pause (a validation) is no slowness.
  void restart(TimePoint now);
  void add(std::uint64_t samples, double loss, TimePoint now);

  // Both as of the last `add`. The mean of all losses, each counted once; none before the first.
  std::optional<double> loss() const;
  // 0 where no time has passed.
  double samples_per_s() const;

 private:
  // A fiftieth of the length, put together.
  struct Slot {
    TimePoint begin;
    TimePoint end;
    std::uint64_t samples = 0;
    std::uint64_t losses = 0;
    double loss_sum = 0;
  };

  Duration length_;
  TimePoint since_;  // when the first slot's samples began to be worked on
  std::deque<Slot> slots_;
  std::optional<double> earlier_loss_;
  double earlier_rate_ = 0;
};

}  // namespace ravnest::report
