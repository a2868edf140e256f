// The training loop of a rank without Python, the same on every rank.
//
//   auto rank = Rank::open(...);
//   auto trainer = RankTrainer::prepare(**rank, config, {});
//   auto outcome = trainer->train(poll);
//   (*rank)->close();
//
// The batch of a step is that which one process would take with `world` times the batch size: each rank has its share.
#pragma once

#include <optional>

#include "ravnest/base/status.h"
#include "ravnest/train/config/config.h"
#include "ravnest/train/loop/batched_data.h"
#include "ravnest/train/loop/loop.h"
#include "ravnest/train/loop/trainer.h"
#include "ravnest/train/rank/rank.h"

namespace ravnest::train {

// For one thread. The rank outlives it, and has not been configured before.
class RankTrainer {
 public:
  // Makes all that the config names, and configures the rank with it. On failure the run is ended on all ranks.
  static Result<RankTrainer> prepare(Rank& rank, const TrainConfig& config, TrainerOptions options);

  // Trains for the config's epochs, validates, and has rank 0 save. The outcome is the same on all ranks. A failure,
  // `poll`'s among them, ends the run on all ranks.
  Result<TrainOutcome> train(const Poll& poll);

 private:
  RankTrainer(Rank& rank, const TrainConfig& config) : rank_(&rank), config_(config) {}

  Status load_data();
  Result<TrainingOptions> training_options(const TrainerOptions& options) const;
  Result<TrainOutcome> run(const Poll& poll);

  Rank* rank_;
  TrainConfig config_;
  std::optional<BatchedData> training_;
  std::optional<BatchedData> validation_;
  Position position_;
  BatchCounts epochs_{"the data set of [data]", "epoch"};
  BatchCounts validations_{"the data set of [validation]", "validation"};
};

}  // namespace ravnest::train
