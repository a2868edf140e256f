#include "ravnest/train/node/round_checkpoints.h"

#include <algorithm>

namespace ravnest::train {

using checkpoint::DataPosition;

void RoundCheckpoints::begin(const DataPosition& position, std::uint64_t checkpoint, TimePoint now) {
  const MutexLock lock(mutex_);
  begun_ = true;
  last_ = checkpoint;
  due_.begin(position.updates, position.epoch, now);
  fed_ = {position};
  entered_ = position;
}

void RoundCheckpoints::fed(const DataPosition& position) {
  const MutexLock lock(mutex_);
  fed_.push_back(position);
}

RoundCheckpoints::Capture RoundCheckpoints::at(Entry entry, std::uint64_t passes, bool under_way, TimePoint now) {
  const MutexLock lock(mutex_);
  if (!begun_ || fed_.empty()) return {};
  // A marked pass is the last of its batch, and an averaging pass comes between two: so one of these is meant.
  while (fed_.size() > 1 && fed_.front().passes < passes) fed_.pop_front();
  const DataPosition& position = fed_.front();
  if (entry == Entry::kAveragingPass) entered_ = position;
  const bool by_interval = due_.after_update(position.updates, now) || due_.after_epoch(position.epoch);
  const bool at_the_end = entry == Entry::kLast && position.updates > due_.updates();
  Capture capture;
  capture.due = at_the_end || (by_interval && !under_way);
  if (entry != Entry::kMarkedPass) capture.number = std::max(position.updates, last_ + 1);
  return capture;
}

DataPosition RoundCheckpoints::entered() const {
  const MutexLock lock(mutex_);
  return entered_;
}

void RoundCheckpoints::made(std::uint64_t checkpoint, const DataPosition& position, TimePoint now) {
  const MutexLock lock(mutex_);
  last_ = std::max(last_, checkpoint);
  due_.made(position.updates, position.epoch, now);
}

}  // namespace ravnest::train
