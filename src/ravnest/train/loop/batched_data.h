// A data set without Python, batch by batch: as the root feeds it, and as the leaf has its targets.
#pragma once

#include <cstdint>

#include "ravnest/data/batches.h"
#include "ravnest/data/dataset.h"
#include "ravnest/train/loop/batch_source.h"
#include "ravnest/train/loop/leaf_labels.h"

namespace ravnest::train {

// Samples, and which of them make up which batch. A plain value; copying it shares the tensors.
struct BatchedData {
  data::Dataset samples;
  data::Batches batches;

  // Batch number `index` of `epoch`; without rows from the epoch's end on.
  data::Dataset batch(std::uint64_t epoch, std::uint64_t index) const {
    return data::batch(samples, batches.rows(epoch, index));
  }
};

// In which order the batches come.
enum class DataOrder : std::uint8_t {
  kOfEachEpoch,  // another one in each epoch, where they are shuffled
  kOfTheFirst,   // of epoch 0, whatever the number: validation
};

// Its data outlive it.
class DatasetBatches final : public BatchSource {
 public:
  DatasetBatches(const BatchedData& data, DataOrder order) : data_(&data), order_(order) {}

  Status begin(std::uint64_t number) override;
  Result<std::optional<SourceBatch>> next() override;
  Status skip(std::uint64_t batches) override {
    index_ += batches;
    return {};
  }
  std::uint64_t batches() const override { return static_cast<std::uint64_t>(data_->batches.per_epoch()); }

 private:
  const BatchedData* data_;
  DataOrder order_;
  std::uint64_t epoch_ = 0;
  std::uint64_t index_ = 0;  // of the next batch
};

// Likewise.
class DatasetTargets final : public LabelSource {
 public:
  DatasetTargets(const BatchedData& data, DataOrder order) : data_(&data), order_(order) {}

  Status begin(std::uint64_t epoch) override;
  Result<std::optional<std::uint64_t>> next() override;
  Status skip(std::uint64_t items) override {
    index_ += items;
    return {};
  }
  // Of the batch at hand.
  const at::Tensor& targets() const { return targets_; }

 private:
  const BatchedData* data_;
  DataOrder order_;
  std::uint64_t epoch_ = 0;
  std::uint64_t index_ = 0;  // of the next batch
  at::Tensor targets_;
};

}  // namespace ravnest::train
