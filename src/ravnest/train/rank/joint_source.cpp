#include "ravnest/train/rank/joint_source.h"

#include <ATen/ATen.h>

#include <span>
#include <utility>

#include "ravnest/cluster/microbatches.h"

namespace ravnest::train {

Status JointSource::begin(std::uint64_t number) {
  if (Status begun = own_.begin(number); !begun.ok()) return begun;
  is_over_ = false;
  return ask();
}

// Fetches this rank's next batch, unless it has come to its end, and asks how many samples all ranks have.
Status JointSource::ask() {
  if (!is_over_) {
    auto batch = own_.next();
    if (!batch.ok()) return batch.status();
    batch_ = std::move(*batch);
    is_over_ = !batch_;
  }
  samples_ = batch_ ? static_cast<std::int64_t>(cluster::samples_of(batch_->inputs)) : 0;
  asked_ = rank_.communicator().sum(std::span(&samples_, 1));
  return {};
}

Result<std::optional<SourceBatch>> JointSource::next() {
  if (Status answered = rank_.wait(*asked_, poll_); !answered.ok()) return rank_.ended(answered);
  if (samples_ == 0) return std::optional<SourceBatch>();
  rank_.announce(static_cast<std::uint64_t>(samples_));
  SourceBatch batch = batch_ ? std::move(*batch_) : SourceBatch();
  batch_.reset();
  if (Status asked = ask(); !asked.ok()) return asked;
  return std::optional(std::move(batch));
}

}  // namespace ravnest::train
