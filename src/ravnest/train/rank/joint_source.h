// A rank's part of the batches of all ranks: it goes on until the last rank has none left.
//
// Ranks may have unequal numbers of batches, above all where the samples do not come out even. A rank that has none
// left then gets batches without inputs, which it trains along with the others (Rank::feed). How many samples all ranks
// have for a batch is asked for while the one before it is computed, so nobody waits for the answer. Where samples that
// do not come out even can't be why one has less than another, rank 0 says who had how many.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ravnest/strategy/communicate/pending.h"
#include "ravnest/train/loop/batch_source.h"
#include "ravnest/train/rank/rank.h"

namespace ravnest::train {

class JointSource final : public BatchSource {
 public:
  // All outlive it.
  // `unit`, for a sentence, is what going through it once is.
  JointSource(BatchSource& own, Rank& rank, const Poll& poll, std::string unit)
      : own_(own), rank_(rank), poll_(poll), unit_(std::move(unit)) {}

  Status begin(std::uint64_t number) override;
  Result<std::optional<SourceBatch>> next() override;
  Status skip(std::uint64_t batches) override;
  // Those of this rank.
  std::uint64_t batches() const override { return own_.batches(); }

 private:
  Status ask();
  Status answer();
  Status compare_counts();

  BatchSource& own_;
  Rank& rank_;
  const Poll& poll_;
  const std::string unit_;
  std::uint64_t number_ = 0;          // of the epoch
  std::int64_t count_ = 0;            // batches of this rank, in this epoch
  std::string said_;                  // of the counts, without the epoch
  std::optional<SourceBatch> batch_;  // the next one of this rank, if there is one
  bool is_over_ = false;              // it has no more in this epoch
  std::uint64_t index_ = 0;           // of that batch in the epoch
  Told told_;                         // of that batch; once `asked_` was waited for, by all ranks
  std::shared_ptr<strategy::Pending> asked_;
};

}  // namespace ravnest::train
