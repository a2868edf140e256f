#include "ravnest/train/loop/batched_data.h"

#include <array>
#include <utility>

#include "ravnest/train/node/labels.h"

namespace ravnest::train {

Status DatasetBatches::begin(std::uint64_t number) {
  epoch_ = order_ == DataOrder::kOfEachEpoch ? number : 0;
  index_ = 0;
  return {};
}

Result<std::optional<SourceBatch>> DatasetBatches::next() {
  if (index_ >= batches()) return std::optional<SourceBatch>();
  data::Dataset batch = data_->batch(epoch_, index_++);
  const std::uint64_t digest = label_digest(std::array{batch.targets});
  return std::optional(SourceBatch{{std::move(batch.inputs)}, digest});
}

Status DatasetTargets::begin(std::uint64_t epoch) {
  epoch_ = order_ == DataOrder::kOfEachEpoch ? epoch : 0;
  index_ = 0;
  return {};
}

Result<std::optional<std::uint64_t>> DatasetTargets::next() {
  const auto rows = data_->batches.rows(epoch_, index_);
  if (rows.empty()) return std::optional<std::uint64_t>();
  targets_ = data::rows_of(data_->samples.targets, rows);
  ++index_;
  return std::optional(label_digest(std::array{targets_}));
}

}  // namespace ravnest::train
