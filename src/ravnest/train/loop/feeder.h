// What the root does with a sink, batch by batch: for the loop (loop.h), and for loops that users write.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/manifest.h"
#include "ravnest/train/loop/batch_counts.h"
#include "ravnest/train/loop/batch_source.h"
#include "ravnest/train/node/batch_sink.h"

namespace ravnest::train {

// Where a run goes on that was interrupted: what comes before was trained on then.
//
// Batches count where they are what they were then, which the first one of the epoch shows; where they are larger or
// smaller, as with another number of ranks, samples do.
struct GoOn {
  std::uint64_t epoch = 0;    // of the next batch to train on
  std::uint64_t index = 0;    // batches of that epoch that come before
  std::uint64_t samples = 0;  // the same in samples, of all who feed
  std::uint64_t batch = 0;    // samples of that epoch's first batch; 0: not known, and batches count
  std::uint64_t trained = 0;
  std::uint64_t sweep = 0;
  std::uint64_t validated = 0;  // `trained` at the last validation that was over
};

// How far the root is.
struct Position {
  std::uint64_t epoch = 0;        // of the next batch to train on
  std::uint64_t index = 0;        // of that batch in its epoch
  std::uint64_t sweep = 0;        // of the next batch to validate with
  std::uint64_t sweep_index = 0;  // of that batch in its sweep
  std::optional<Sweep> sweeping;  // what the present sweep is for; none: there is none
  std::uint64_t trained = 0;      // batches that were fed to train on
  BatchCounts epochs{"the training loop", "epoch"};
  std::optional<GoOn> go_on = {};

  // On the way there, of the epoch in which it is: samples that were left out, and those of its first batch.
  std::uint64_t samples = 0;
  std::uint64_t first_batch = 0;
  bool went_on = false;                  // the way is over
  std::optional<LeftOut> left_out = {};  // what the next batch is told of it

  bool is_going_on() const { return go_on && !went_on; }
  // Whether the next batch to validate with was so before.
  bool sweep_is_behind() const { return go_on && sweep < go_on->sweep; }
  // Whether what was trained so far was validated, too, before the run was interrupted.
  bool validation_is_behind() const { return go_on && trained == go_on->trained && trained == go_on->validated; }
};

// Where the checkpoint says.
inline GoOn go_on_from(const checkpoint::Manifest& manifest) {
  const checkpoint::DataPosition& at = manifest.position;
  return {at.epoch, at.index, at.samples, at.batch, at.trained, at.sweep, at.validated};
}

// Numbers batches and hands them to the sink. A sweep ends when something else is done. Sink and position outlive it.
class Feeder {
 public:
  Feeder(BatchSink& sink, Position& position, Poll poll) : sink_(&sink), position_(&position), poll_(std::move(poll)) {}

  // A batch that the run has trained on before it was interrupted is counted, and no more; so is one to validate with.
  // One of which it has trained on a part is fed, and a line says so. kCancelled where the sink wants the training to
  // end, of any kind of batch.
  Status train(SourceBatch batch);
  Status validate(SourceBatch batch, Sweep purpose);
  // The model's outputs, flat. Those of an earlier prediction that nobody waited for to the end are dropped.
  Result<std::vector<wire::Tensor>> predict(std::vector<at::Tensor> inputs);

  // The next batch to validate with is the first of another sweep.
  Status end_sweep();
  // The next batch to train on is the first of another epoch; nothing where none was fed in this one.
  void end_epoch();
  // Where the run goes on from a checkpoint: whether all of the next epoch, which is counted then, lies before that;
  // and how many batches more do of an epoch whose first one was left out: they are to be left out of its source, and
  // count as fed.
  bool skip_epoch();
  std::uint64_t skip_batches();
  Status drain() { return sink_->drain(poll_); }
  Status finish_rounds() { return sink_->finish_rounds(poll_); }

  BatchSink& sink() { return *sink_; }
  const Position& position() const { return *position_; }

 private:
  Status feed(const Batch& batch);
  Result<bool> leave_out(Batch& batch);
  bool goes_by_batches() const;
  bool is_there() const;
  void arrive();

  BatchSink* sink_;
  Position* position_;
  Poll poll_;
};

}  // namespace ravnest::train
