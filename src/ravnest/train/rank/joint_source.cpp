#include "ravnest/train/rank/joint_source.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "ravnest/cluster/microbatches.h"
#include "ravnest/train/loop/batch_counts.h"

namespace ravnest::train {

Status JointSource::begin(std::uint64_t number) {
  if (Status begun = own_.begin(number); !begun.ok()) return begun;
  is_over_ = false;
  number_ = number;
  count_ = 0;
  index_ = 0;
  asked_.reset();
  return {};
}

// What was asked of the next one is answered first: all ranks leave it out.
Status JointSource::skip(std::uint64_t batches) {
  if (batches == 0) return {};
  std::uint64_t left = batches;
  if (asked_) {
    if (Status answered = answer(); !answered.ok()) return answered;
    batch_.reset();
    asked_.reset();
    --left;
  }
  index_ += left;
  if (is_over_) return {};
  count_ += static_cast<std::int64_t>(left);
  return own_.skip(left);
}

// Fetches this rank's next batch, unless it has come to its end, and asks how many samples all ranks have.
Status JointSource::ask() {
  if (!is_over_) {
    auto batch = own_.next();
    if (!batch.ok()) return batch.status();
    batch_ = std::move(*batch);
    is_over_ = !batch_;
    if (batch_) ++count_;
  }
  told_ = tells_batch_at(number_, index_++, batch_ ? cluster::samples_of(batch_->inputs) : 0);
  told_.want_end(rank_.wants_end());
  asked_ = rank_.communicator().sum(std::span(told_.numbers));
  return {};
}

// A rank that has nothing, or much less than another, would wait for the others without a word.
Status JointSource::compare_counts() {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(rank_.world()));
  counts[static_cast<std::size_t>(rank_.rank())] = count_;
  const auto sum = rank_.communicator().sum(std::span(counts));
  if (Status summed = rank_.wait(*sum, poll_); !summed.ok()) return summed;
  const auto [least, most] = std::ranges::minmax_element(counts);
  if (*most - *least < 2 && (*least > 0 || *most == 0)) return {};
  const auto of = [&](auto place) {
    return text(strategy::rank_name(static_cast<int>(place - counts.begin())), " had ",
                counted(static_cast<std::uint64_t>(*place)));
  };
  const std::string line = text(of(least), " and ", of(most));
  if (rank_.rank() == 0 && line != said_) {
    rank_.warn(text(line, " in ", unit_, " ", number_ + 1,
                    ": a rank that has none left trains on nothing while others "
                    "do. Give all the same data and let them be shared out, or loaders of one length"));
  }
  said_ = line;
  return {};
}

Status JointSource::answer() {
  if (Status answered = rank_.wait(*asked_, poll_); !answered.ok()) return rank_.ended(answered);
  if (Status same = check_same(told_, rank_.world()); !same.ok()) return rank_.ended_alike(same);
  rank_.hear(told_);
  return {};
}

Result<std::optional<SourceBatch>> JointSource::next() {
  if (!asked_) {
    if (Status asked = ask(); !asked.ok()) return asked;
  }
  if (Status answered = answer(); !answered.ok()) return answered;
  if (told_.samples() == 0) {
    if (Status compared = compare_counts(); !compared.ok()) return rank_.ended(compared);
    return std::optional<SourceBatch>();
  }
  rank_.announce(static_cast<std::uint64_t>(told_.samples()));
  SourceBatch batch = batch_ ? std::move(*batch_) : SourceBatch();
  batch_.reset();
  if (Status asked = ask(); !asked.ok()) return asked;
  return std::optional(std::move(batch));
}

}  // namespace ravnest::train
