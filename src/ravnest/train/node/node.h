// One node of a plan, running: its stage of the model, its weights, its place in the cluster.
//
//   auto node = Node::open({.name = "node_1"});
//   node->configure({.optimizer = ..., .criterion = ...});
//   node->begin("train");
//   node->serve(poll);                                                   // all but the root: until its call is closed
//   node->feed(batch, poll); ... node->finish({.save = true}, false, poll);   // the root
//
// A call computes on a thread of the node's own. What waits does so in short steps and asks `poll` in between: where
// that fails, so does the wait, and the caller decides whether the run is to be stopped. Functions are for one thread,
// but for `stop`.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ravnest/average/averager.h"
#include "ravnest/base/log.h"
#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/cluster/driver.h"
#include "ravnest/cluster/microbatches.h"
#include "ravnest/codec/codec.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/net/background.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/plan/plan.h"
#include "ravnest/report/progress.h"
#include "ravnest/report/summary.h"
#include "ravnest/train/node/batch_sink.h"
#include "ravnest/train/node/farewell.h"
#include "ravnest/train/node/node_checkpoints.h"
#include "ravnest/train/node/round_checkpoints.h"
#include "ravnest/train/node/run_choice.h"
#include "ravnest/train/node/run_record.h"
#include "ravnest/train/node/training_options.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/worker/model_worker.h"

namespace ravnest::train {

struct NodeOptions {
  std::string name;  // "node_3"
  std::filesystem::path node_data = "node_data";
  std::filesystem::path trained = "trained";  // where stages are saved
  std::filesystem::path custom_stage;         // an archive that takes the planned stage's place; empty: the planned one
  std::string software = "0";                 // the release, for messages
  c10::Device device = c10::kCPU;
  bool insecure = false;  // without TLS, which only a cluster on one machine's loopback may do
  // Where others are told of a failure outside of a call; none: before it is returned, which may take seconds.
  std::shared_ptr<Background> background = {};
  Logger log;
};

class Node final : public BatchSink {
 public:
  // Reads the plan, joins the network and reads the stage. Where that fails and the plan tells who the others are, they
  // are told, since they would wait for this node in vain; but not where the node runs already: then all is well.
  static Result<std::unique_ptr<Node>> open(NodeOptions options);
  // Tells the others that this node, which has not joined, will not take part.
  static Status withdraw(const NodeOptions& options, const Farewell& farewell);
  ~Node() override;

  const std::string& name() const { return options_.name; }
  const plan::Plan& plan() const { return plan_; }
  int cluster() const { return cluster_; }
  int stage() const { return stage_; }
  int stages() const { return static_cast<int>(nodes_.size()); }
  bool is_root() const { return stage_ == 0; }
  bool is_leaf() const { return stage_ + 1 == stages(); }
  std::string_view role() const { return plan::role(stage_, stages()); }
  const std::string& name_of(int stage) const { return nodes_[static_cast<std::size_t>(stage)]; }
  const graph::Engine& engine() const { return engine_; }

  // Once, before the first call.
  void configure(TrainingOptions training_options);

  // Where the run has checkpoints, once before the first call that trains, by all nodes: the root decides which one is
  // gone on from, and each has its part of it when this returns. A call of its own; does nothing where there are none.
  // Before it none are made. `settings` are further ones of the run, which checkpoints hold and a root that goes on
  // from one compares (checkpoint/settings.h).
  Status begin_run(const std::map<std::string, std::string>& settings, const Poll& poll);
  // What the run goes on from; none where it begins anew.
  const std::optional<checkpoint::Manifest>& resumed() const;
  // This node was told to end: the root does, at its next batch, with a checkpoint (`finish_early`). False where
  // nothing is trained yet that a checkpoint could keep. Safe from any thread.
  bool want_end(const std::string& why);
  std::optional<std::string> end_wanted() const override;
  // The update of the last checkpoint that is complete; 0: there is none.
  std::uint64_t last_checkpoint() const { return checkpoints_ ? checkpoints_->last() : 0; }

  // -- calls: each begins with `begin` and ends with `serve` or `finish`, or with a failure

  Status begin(const std::string& call);
  // Others than the root.
  Result<wire::Closed> serve(const Poll& poll);
  Result<std::uint64_t> samples_of_all(const Batch& batch, const Poll& poll) override;
  // Root: a batch, cut into passes. Waits for room.
  Status feed(const Batch& batch, const Poll& poll) override;
  // Root: all batches of the sweep were fed.
  Status end_sweep(Sweep sweep) override;
  // Root: until all that was fed is computed everywhere.
  Status drain(const Poll& poll) override;
  // Root: takes part in a round with the other clusters now, and waits until it holds.
  Status average(const Poll& poll);
  bool has_rounds() const override { return plan_.clusters.size() > 1; }
  // Root: until the other clusters have trained what they train in this call too, and the weights of all are averaged:
  // what is validated after it is what is saved.
  Status finish_rounds(const Poll& poll) override;
  // Root: the call is over when all that was fed is computed and everyone has done `task`. `goes_on`: what the user has
  // called does, and the others go on to the next call by themselves. Once training is over every node saves its own
  // stage, whatever becomes of the others; where one cannot, this and `serve` fail on all nodes when the rest have
  // saved.
  Result<wire::Closed> finish(wire::Task task, bool goes_on, const Poll& poll);
  // Root, where `end_wanted`: the same with what was fed so far, a checkpoint of it, and `ended_early`. kUnavailable,
  // on all nodes, where there is no such checkpoint.
  Result<wire::Closed> finish_early(wire::Task task, const Poll& poll);
  // Ends the run on all nodes. Safe from any thread. Where no call is under way, the others hear it from `close`.
  void stop(Farewell farewell);
  // Leaves the network in good order. What is called afterwards fails.
  void close();

  // A line for whoever watches the run, above the progress where that is shown.
  void warn(const std::string& line) const override;

  // Saves this stage's weights as they are; while no call is under way.
  Status save();

  const RunRecord& record() const { return *record_; }
  RunRecord& record() override { return *record_; }
  // Of the rounds with other clusters so far; none where there are no others.
  std::optional<average::AveragerStatistics> rounds() const;
  // What this node did in the last call, or does in this one; bytes are those of all calls.
  wire::NodeWork work() const;
  // Root, after `finish`: what the call came to, of a training that took so long.
  report::RunSummary run_summary(double seconds, std::uint64_t samples, std::uint64_t epochs) const;

 private:
  Node(NodeOptions options, plan::Plan plan, graph::Engine engine);
  int window() const;
  void join_rounds(worker::ModelWorkerOptions& worker, cluster::DriverOptions& driver);
  Status until(const std::function<Status(TimePoint)>& attempt, const Poll& poll);
  void say_for_whom();
  void look_for_strangers();
  Status join_call(const Poll& poll);
  void make_checkpoints(worker::ModelWorkerOptions& worker, cluster::DriverOptions& driver);
  std::map<std::string, std::string> settings() const;
  Status begin_call(wire::Ready ready, bool trains);
  bool makes_checkpoints() const { return checkpoints_ && run_begun_; }
  std::map<std::string, std::string> settings_alike() const;
  Status go_on_from(const wire::CheckpointRun& run);
  Status offer(const cluster::Microbatch& part, const Poll& poll);
  void mark_if_due(stage::Offer& last_part);
  Status take_snapshots_of_epoch(std::uint64_t epoch, const Poll& poll);
  Status take_snapshots(const Poll& poll);
  Status on_checkpointing(int from, wire::Checkpointing checkpointing);
  // With other clusters (node_clusters.cpp).
  bool makes_round_checkpoints() const;
  std::vector<std::string> roots() const;
  void make_round_checkpoints(NodeCheckpointsOptions& options, cluster::DriverOptions& driver);
  Status on_other_cluster(const std::string& node, wire::Checkpointing checkpointing);
  void on_gone_elsewhere(const std::string& node);
  void send_choice() RAVNEST_REQUIRES(choice_mutex_);
  void offer_run(const std::vector<wire::Ready>& ready);
  Result<wire::CheckpointRun> choose_with_others(const Poll& poll);
  std::vector<std::string> clusters_waited_for() const;
  void on_round_checkpoint(const wire::Attempt& attempt, bool can);
  Status finish_with_others(const Poll& poll);
  Status finish_uploads(const Poll& poll);
  wire::Account account_of(const wire::Task& task);
  wire::Closed closing_of(const std::vector<wire::Account>& accounts);
  void say_early_end(wire::Closed& closed) const;
  void reach(std::uint64_t epochs);

  const NodeOptions options_;
  const plan::Plan plan_;
  int cluster_ = 0;
  int stage_ = 0;
  std::vector<std::string> nodes_;  // of the cluster, by stage
  graph::Engine engine_;
  stage::StageOptions place_;
  std::optional<plan::FolderLock> folder_;  // while it listens
  std::unique_ptr<transport::Endpoint> endpoint_;

  TrainingOptions training_options_;
  std::unique_ptr<RunRecord> record_;
  std::unique_ptr<NodeCheckpoints> checkpoints_;         // where the run has some
  std::unique_ptr<RoundCheckpoints> round_checkpoints_;  // root: with other clusters
  std::unique_ptr<average::Averager> averager_;          // where there are other clusters
  std::unique_ptr<worker::ModelWorker> worker_;
  std::unique_ptr<cluster::Driver> driver_;

  std::thread computing_;
  struct Outcome;
  std::shared_ptr<Outcome> outcome_;
  mutable Mutex stop_mutex_;
  std::optional<Farewell> stop_ RAVNEST_GUARDED_BY(stop_mutex_);  // why the run is to end
  std::optional<std::string> end_wanted_ RAVNEST_GUARDED_BY(stop_mutex_);
  std::atomic<bool> choosing_ = false;  // root: this call is the one in which all clusters choose
  mutable Mutex choice_mutex_;
  ConditionVariable choice_changed_;
  std::optional<RunChoice> choice_ RAVNEST_GUARDED_BY(choice_mutex_);  // root: with other clusters
  // The checkpoint of the last round of all, which is made when what comes after training is done; 0: none.
  std::uint64_t last_round_ RAVNEST_GUARDED_BY(choice_mutex_) = 0;
  std::uint64_t kept_at_the_end_ = 0;  // root, with other clusters: the checkpoint that the training ends with
  std::vector<wire::Ready> ready_;     // root: for this call, by stage; of the compute thread
  std::vector<report::NodeSummary> summaries_;
  cluster::DriverStatistics before_;  // this call

  std::string run_ = "untrained";  // as the root calls it
  std::uint64_t epochs_ = 0;       // that are over

  // Of the root's thread; while a call ends, of its compute thread.
  std::uint64_t batches_ = 0;          // fed, of all kinds
  checkpoint::DataPosition position_;  // behind what was fed to train on
  std::uint64_t updates_ = 0;          // that those batches end with
  std::uint64_t sweeps_ = 0;           // begun
  bool ends_early_ = false;
  std::vector<std::string> options_kept_;  // of the optimizer, where the checkpoint's are others
  checkpoint::Due due_{checkpoint::Interval()};
  bool run_begun_ = false;
  TimePoint waiting_since_;
  TimePoint said_;
};

}  // namespace ravnest::train
