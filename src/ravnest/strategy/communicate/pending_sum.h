// A small sum on the host, which whoever begins it gets by waiting: nothing is written where nobody waits.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ravnest/strategy/communicate/pending.h"

namespace ravnest::strategy {

template <class T>
class PendingSum final : public Pending {
 public:
  // `sum` is complete when `begun` was waited for, and as long as `into`.
  PendingSum(std::shared_ptr<Pending> begun, std::shared_ptr<const std::vector<T>> sum, std::span<T> into)
      : begun_(std::move(begun)), sum_(std::move(sum)), into_(into) {}

  Status wait_until(TimePoint deadline) override {
    Status ended = begun_->wait_until(deadline);
    if (ended.ok() && !std::exchange(taken_, true)) std::ranges::copy(*sum_, into_.begin());
    return ended;
  }

 private:
  const std::shared_ptr<Pending> begun_;
  const std::shared_ptr<const std::vector<T>> sum_;
  const std::span<T> into_;
  bool taken_ = false;
};

}  // namespace ravnest::strategy
