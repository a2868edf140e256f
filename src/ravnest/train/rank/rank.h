// One rank of a data-parallel run: the whole model, trained together with all other ranks.
//
//   auto rank = Rank::open({.model = "model.pt2", .place = ...}, poll);
//   (*rank)->configure({.optimizer = ..., .criterion = ...});
//   (*rank)->begin("train", poll);
//   train_epochs(feeder over a JointSource, ...); (*rank)->finish(...);
//   (*rank)->close();
//
// Every rank calls the same functions in the same order. It computes on the thread that calls. What waits for others
// asks `poll` in between: where that fails, so does the wait, and the caller decides whether the run is to be stopped.
// What ends the run on one rank ends it on all, with the same sentence. Functions are for one thread, but for `stop`.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/log.h"
#include "ravnest/base/status.h"
#include "ravnest/checkpoint/interval.h"
#include "ravnest/checkpoint/manifest.h"
#include "ravnest/graph/cut/units.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/report/rank_summary.h"
#include "ravnest/strategy/communicate/communicator.h"
#include "ravnest/strategy/ddp.h"
#include "ravnest/strategy/launch/ranks.h"
#include "ravnest/strategy/launch/rendezvous.h"
#include "ravnest/train/node/batch_sink.h"
#include "ravnest/train/node/farewell.h"
#include "ravnest/train/node/node_checkpoints.h"
#include "ravnest/train/node/run_record.h"
#include "ravnest/train/node/training_options.h"
#include "ravnest/train/rank/backend.h"
#include "ravnest/train/rank/float32.h"
#include "ravnest/train/rank/lockstep.h"

namespace ravnest::train {

// How a step is shared out; the same on all ranks.
struct StrategyOptions {
  graph::UnitOptions units;
  bool broadcast_buffers = true;
  Backend backend = Backend::kAuto;
  bool trusted_network = false;  // NCCL, which does not encrypt, may go over the network
  strategy::Precision precision = strategy::Precision::kFloat32;
  Float32 float32 = Float32::kExact;
};

struct RankOptions {
  std::filesystem::path model;                // a captured model
  std::filesystem::path trained = "trained";  // where rank 0 saves it
  strategy::RendezvousOptions rendezvous;     // whose place has a rank
  StrategyOptions strategy;
  c10::Device device = c10::kCPU;                // "cuda" gives the ranks of a machine one each
  bool gpus_are_chosen = false;                  // by CUDA_VISIBLE_DEVICES
  std::filesystem::path nccl_library = {};       // as of BackendOptions
  Duration nccl_time = std::chrono::minutes(2);  // for NCCL to connect the ranks, which are all there by then
  Logger log;
};

class Rank final : public BatchSink {
 public:
  // Reads the model and meets the other ranks, waiting for those that are not there yet.
  // What keeps it from that, such as a model that is not there, all ranks end with, once all have met.
  static Result<std::unique_ptr<Rank>> open(RankOptions options, const Poll& poll);
  // The same for what fails before `open` can be called, of a rank that is not alone: meets the others, and returns
  // what all end with, as strategy::withdraw. `reason` reads on after the rank's name.
  static Status withdraw(const RankOptions& options, const std::string& reason, const Poll& poll);
  ~Rank() override;

  int rank() const { return communicator_->rank(); }
  int world() const { return communicator_->world(); }
  // "rank_3"
  std::string name() const { return strategy::rank_name(rank()); }
  c10::Device device() const { return options_.device; }
  const graph::Engine& engine() const { return engine_; }
  // What ranks tell each other on the host, whatever their gradients go by.
  strategy::Communicator& communicator() { return *communicator_; }

  // Once, before the first call. What only pipelines know is not looked at.
  Status configure(TrainingOptions training_options);

  // What checkpoints say of the run beside what all ranks have to have alike; before it begins.
  void record_settings(std::map<std::string, std::string> settings) { recorded_settings_ = std::move(settings); }

  // -- calls: each begins with `begin` and ends with `finish`, or with a failure

  // Fails on all ranks where they do not begin the same, `settings` and all that they were configured with. The first
  // "train" of a run with checkpoints goes on from one where that is asked for: rank 0 reads it, and all take it.
  Status begin(const std::string& call, const Poll& poll, const std::map<std::string, std::string>& settings = {});
  // As `announce` has said, or by asking all.
  Result<std::uint64_t> samples_of_all(const Batch& batch, const Poll& poll) override;
  // A batch of this rank's own; one without inputs where it has none left and others have. How many samples all ranks
  // have for it is asked for, unless `announce` has said so.
  Status feed(const Batch& batch, const Poll& poll) override;
  // The samples of all ranks for the batch that is fed next.
  void announce(std::uint64_t samples) { announced_.push_back(samples); }
  Status end_sweep(Sweep sweep) override;
  Status drain(const Poll& poll) override;
  bool has_rounds() const override { return false; }
  Status finish_rounds(const Poll& /*poll*/) override { return {}; }
  // The call is over on all ranks. Where asked for, rank 0 saves the model; where it can not, this fails on all.
  Status finish(const wire::Task& task, const Poll& poll);

  // What the run goes on from; none where it begins anew.
  const std::optional<checkpoint::Manifest>& resumed() const { return resumed_; }
  // This rank was told to end, and why: all do, after their next update, with a checkpoint. False where nothing is
  // trained yet that a checkpoint could keep. For the thread that calls, as its `poll` may.
  bool want_end(const std::string& why);
  // The same on all ranks.
  std::optional<std::string> end_wanted() const override;
  // In the place of `finish`, where that is why the loop has ended: what is to be said of it, the same on all ranks.
  Result<std::string> end_early(std::uint64_t epochs, const Poll& poll);
  // What is told to all beside each batch, and what all have told.
  bool wants_end() const { return told_to_end_.has_value(); }
  void hear(const Told& told) { ends_ = ends_ || told.enders() > 0; }

  // How this rank waits for an operation of the communicator; the failure of one is the run's.
  Status wait(strategy::Pending& pending, const Poll& poll);
  // What the run ends with on all ranks, given what was seen here first.
  Status ended(const Status& seen);
  // The same of what all ranks see alike, in the same words.
  Status ended_alike(const Status& seen);
  // Ends the run on all ranks, and returns what it ends with. Safe from any thread.
  Status stop(const Farewell& farewell);
  // Leaves the others in good order. What is called afterwards fails.
  void close();

  Status save() const;
  void warn(const std::string& line) const override;
  RunRecord& record() override { return *record_; }
  // After `finish`: what the call came to, on all ranks.
  report::RanksSummary summary(double seconds, std::uint64_t samples, std::uint64_t epochs) const;

 private:
  struct Traffic {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };

  Rank(RankOptions options, graph::Engine engine);
  static Result<std::unique_ptr<Rank>> load(RankOptions options);
  static strategy::RendezvousOptions meeting_of(const RankOptions& options);
  std::array<std::filesystem::path, 2> saved_files() const;
  Status join(strategy::Met met, const Poll& poll);
  Status choose_backend(const Poll& poll);
  Status connect_nccl(const Poll& poll);
  Status make_ddp();
  strategy::Communicator& tensors() { return nccl_ ? *nccl_ : *communicator_; }
  Status compare(const wire::Ready& ready);
  Result<Told> told_by_all(Told own);
  Status train(const Batch& batch);
  void warn_of_skipped(std::uint64_t skipped_before);
  Status evaluate(const Batch& batch);
  Status take_reports(std::size_t keep);
  std::vector<wire::Setting> checkpoint_settings() const;
  Status begin_checkpoints(const std::map<std::string, std::string>& settings);
  Result<std::optional<checkpoint::Part>> find_checkpoint(const std::map<std::string, std::string>& settings);
  Status share_checkpoint(std::optional<checkpoint::Part>& part);
  Status share_bytes(std::string& bytes);
  Status go_on_from(const checkpoint::Part& part);
  std::uint64_t checkpoint_due();
  Status checkpoint_of_epoch(const Batch& batch);
  Status checkpoint_between_passes(std::uint64_t epochs, bool is_last);
  Status take_snapshot(checkpoint::Part part);
  Status written_by_now();
  Status keep_last(const wire::Task& task);
  Status compare_parameters();
  Status gather_work();
  Traffic traffic() const;
  void reach(std::uint64_t epochs);

  const RankOptions options_;
  std::optional<Float32Mode> float32_;  // none on the CPU, which has no TF32
  graph::Engine engine_;
  std::unique_ptr<strategy::Ranks> ranks_;  // none where this is the only one
  std::unique_ptr<strategy::Communicator> communicator_;
  std::unique_ptr<strategy::NcclCommunicator> nccl_;  // of tensors, where it is used

  TrainingOptions training_options_;
  std::unique_ptr<RunRecord> record_;
  std::unique_ptr<strategy::Ddp> ddp_;

  // A loss on its way.
  struct Reported {
    stage::Offer offer;
    strategy::SharedLoss loss;
  };
  std::deque<Reported> reports_;
  std::deque<std::uint64_t> announced_;
  Poll poll_;                        // of the call under way
  std::uint64_t swept_samples_ = 0;  // of the present sweep, here
  std::uint64_t swept_correct_ = 0;
  std::uint64_t batches_ = 0;  // fed, of all kinds
  std::uint64_t sweeps_ = 0;   // begun
  std::uint64_t passes_ = 0;   // that train, of each rank: their numbers key what is drawn
  std::uint64_t epochs_ = 0;   // that are over
  TimePoint begun_;            // the call
  // Before this call:
  strategy::DdpTimes times_before_;
  Traffic traffic_before_;
  std::uint64_t steps_before_ = 0;
  std::uint64_t skipped_before_ = 0;
  std::vector<report::RankSummary> work_;

  std::map<std::string, std::string> recorded_settings_;
  bool trains_ = false;                // the call
  checkpoint::DataPosition position_;  // behind what was fed to train on
  checkpoint::Due due_{checkpoint::Interval()};
  bool checkpoints_begun_ = false;
  std::optional<checkpoint::Manifest> resumed_;
  std::vector<std::string> options_kept_;         // as PartState::options_kept
  bool ends_ = false;                             // some rank was told to end, as all know
  std::optional<std::string> told_to_end_;        // this one, and why
  std::unique_ptr<NodeCheckpoints> checkpoints_;  // rank 0: where the run has some; last, since it uses the record
};

}  // namespace ravnest::train
