// A rank's part of the batches of all ranks: it goes on until the last rank has none left.
//
// Ranks may have unequal numbers of batches, above all where the samples do not come out even. A rank that has none
// left then gets batches without inputs, which it trains along with the others (Rank::feed). How many samples all ranks
// have for a batch is asked for while the one before it is computed, so nobody waits for the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ravnest/strategy/communicate/pending.h"
#include "ravnest/train/loop/batch_source.h"
#include "ravnest/train/rank/rank.h"

namespace ravnest::train {

class JointSource final : public BatchSource {
 public:
  // All outlive it.
  JointSource(BatchSource& own, Rank& rank, const Poll& poll) : own_(own), rank_(rank), poll_(poll) {}

  Status begin(std::uint64_t number) override;
  Result<std::optional<SourceBatch>> next() override;
  // Those of this rank.
  std::uint64_t batches() const override { return own_.batches(); }

 private:
  Status ask();

  BatchSource& own_;
  Rank& rank_;
  const Poll& poll_;
  std::optional<SourceBatch> batch_;  // the next one of this rank, if there is one
  bool is_over_ = false;              // it has no more in this epoch
  std::int64_t samples_ = 0;          // of that batch; once `asked_` was waited for, those of all ranks
  std::shared_ptr<strategy::Pending> asked_;
};

}  // namespace ravnest::train
