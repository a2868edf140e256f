// Runs one stage: between an endpoint, the stage's state machine and its worker.
//
// The thread that calls `run` is the stage's compute thread: it alone uses the worker, and waits for the network only
// when there is nothing to compute. All other functions are safe from any thread. Whatever happens to the run happens
// to all its stages: a lost peer, a worker's failure or a message that does not fit ends every `run` with the same
// sentence. What is left to do when all passes are done every stage does all the same, as soon as it knows of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/average/averaging.h"
#include "ravnest/base/clock.h"
#include "ravnest/base/log.h"
#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/cluster/cluster_rounds.h"
#include "ravnest/cluster/inbox.h"
#include "ravnest/stage/call.h"
#include "ravnest/stage/ending.h"
#include "ravnest/stage/stage.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/outbox.h"
#include "ravnest/worker/worker.h"

namespace ravnest::cluster {

struct DriverOptions {
  stage::StageOptions stage;
  std::vector<std::string> nodes;           // the endpoint's names for the stages, by stage
  average::Averaging* averaging = nullptr;  // with other clusters, where there are any; outlives the driver
  ClusterRounds::CaptureAt capture = {};    // root: of checkpoints with them
  // Root: passes that may be offered ahead of those in flight, so that the next one is there when there is room.
  std::size_t offered_most = 2;
  // Root: what the leaf found, in the order of the passes; called by the compute thread, as all functions here.
  std::function<void(wire::Report)> on_report = {};
  // Root: every stage is ready, for this, by stage. A failure ends the run.
  std::function<Status(const std::vector<wire::Ready>& ready)> on_open = {};
  // All passes of the call are done: does what is left to do, and returns this stage's account.
  std::function<Result<wire::Account>(const wire::Task& task)> on_over = {};
  // Root: a call is over, with this task: what it alone can say of it is filled in. A failure ends the run.
  std::function<Status(wire::Task& task)> on_end = {};
  // Checkpointing between this stage and the root's, as it comes.
  std::function<Status(int from, wire::Checkpointing checkpointing)> on_checkpointing = {};
  // Root: the same from nodes of other clusters; and that such a node is gone.
  std::function<Status(const std::string& node, wire::Checkpointing checkpointing)> on_other_cluster = {};
  std::function<void(const std::string& node)> on_gone_elsewhere = {};
  // Root: from all stages' accounts what everyone is to know of the call that is closed now; whether it goes on, the
  // driver knows.
  std::function<wire::Closed(const std::vector<wire::Account>& accounts)> on_accounts = {};
  Logger log;
};

struct DriverStatistics {
  stage::StageCounts counts;
  double forward_s = 0;  // of computing, messages included
  double backward_s = 0;
  double update_s = 0;
  double running_s = 0;  // since the first pass began here, inside of `run`
  double busy_s() const { return forward_s + backward_s + update_s; }
};

class Driver {
 public:
  // All references outlive it. A driver may `run` several times, once for each call of the root's.
  Driver(DriverOptions options, transport::Endpoint& endpoint, worker::Worker& worker);

  // One call (call.h), until the root closes it or the run has failed. `ready` is what this node is ready for. A
  // failure's message begins with the node that failed, and says it too where this stage could not be saved; after one
  // every further call returns the same.
  // Root: `trains` where it is known that the call is one that trains; passes that do show it as well.
  Result<wire::Closed> run(wire::Ready ready = {}, bool trains = false);

  // Root: a pass to be computed. Waits while enough are waiting; kDeadline where that lasts. After a failure: the same
  // as `run` returns.
  Status offer(const stage::Offer& offer, std::vector<wire::EdgeTensor> model_inputs, TimePoint deadline);
  // Root: an averaging pass, as soon as the batches that were begun are computed. Nothing where there are no other
  // clusters.
  void average();
  // Root: until all that was offered is computed everywhere and reported.
  Status drain(TimePoint deadline);
  // Root: until all clusters have trained what they train in this call, and the last round holds here: the weights are
  // those that the call ends with, unless it goes on to train.
  Status finish_rounds(TimePoint deadline);
  // Until the weights used here contain that many updates: others answer a pass before they update.
  Status catch_up(std::uint64_t updates, TimePoint deadline);
  // Root: the call is over when all that was offered is, and where it has trained the other clusters are through too,
  // and the weights of all are averaged. Every stage then does what `task` says.
  // `goes_on`: what the user has called goes on in the next call, and other clusters are not told that this one is
  // through.
  void finish(wire::Task task = {}, bool goes_on = false);
  // To that stage, or a node of another cluster, behind what was posted before. It is sent while a call is under way,
  // before the call's account.
  void post(int stage, wire::Checkpointing checkpointing);
  void post(const std::string& node, wire::Checkpointing checkpointing);
  // Ends the run everywhere. `reason` reads on after the node's name: "was interrupted". Whoever waits gets what the
  // run ends with, once all stages agree on it.
  void stop(std::string reason);

  // Root, in `on_over`: the next pass that trains is the one after so many.
  void go_on_after(std::uint64_t steps) { stage_.go_on_after(steps); }

  // As of the last work that was done.
  DriverStatistics statistics() const;
  // Names of those without whom the call can not go on just now: the root's, who are not ready; before the first pass
  // the others', who were not seen yet, or the root, who has not begun.
  std::vector<std::string> waiting_for() const;

 private:
  Result<wire::Closed> run_call(wire::Ready ready, bool trains);
  void take_requests();
  void receive_all();
  void wait();
  void handle(transport::Event event);
  void handle_elsewhere(transport::Event event);
  void handle(int from, const transport::PeerChange& change);
  Status handle(int from, wire::Message message);
  bool perform(const stage::Work& work);
  Result<std::vector<worker::Outgoing>> compute(const stage::Work& work);
  Result<std::vector<worker::Outgoing>> give(const stage::Work& work);
  Result<std::vector<worker::Outgoing>> take_snapshot(const stage::Work& work);
  std::vector<worker::Outgoing> pass_on(const stage::Work& work);
  std::uint32_t own_index() const { return static_cast<std::uint32_t>(options_.stage.index); }
  void take_report(wire::Report report);
  Status send(int stage, wire::Message message);
  Status send_to_others(const wire::Message& message);
  void fail(wire::Failed reason);
  void tell_of_the_end();
  void fail_here(const Status& status);
  Status advance_call();
  Status lead_call();
  Status follow_call();
  Result<wire::Account> do_task();
  Status account_for();
  Status send_posted();
  void do_task_alone();
  void do_what_is_left();
  bool may_end_call();
  bool computed() const;
  void fail_for_leavers();
  void publish();
  std::vector<std::string> missing() const;
  Status end_alike();
  std::string sentence(const wire::Failed& failed) const;
  // `reached` and `what` are asked under the lock.
  Status wait_for(TimePoint deadline, const std::function<bool()>& reached, const std::function<std::string()>& what)
      RAVNEST_REQUIRES(mutex_);

  const DriverOptions options_;
  transport::Endpoint& endpoint_;
  worker::Worker& worker_;
  const SystemClock clock_;

  // Of the compute thread.
  stage::Stage stage_;
  stage::Call call_;
  ClusterRounds rounds_;
  stage::Ending ending_;
  std::optional<wire::Failed> untold_;  // why the run ends; the others have not been told
  bool broken_ = false;                 // work failed half-way: the weights here are not what they should be
  Inbox inbox_;
  transport::Outbox outbox_;                                  // what it keeps is bounded by the passes in flight
  std::map<std::string, int> stage_of_;                       // by the node's name
  std::deque<std::vector<wire::EdgeTensor>> offered_inputs_;  // of the passes that the stage has not begun
  std::set<int> seen_;                                        // stages that were reached at some time
  std::map<int, TimePoint> left_;                             // stages that closed their endpoints, and when
  std::uint64_t reports_ = 0;
  std::optional<TimePoint> began_;
  DriverStatistics own_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::pair<stage::Offer, std::vector<wire::EdgeTensor>>> requests_ RAVNEST_GUARDED_BY(mutex_);
  std::size_t unbegun_ RAVNEST_GUARDED_BY(mutex_) = 0;  // offers that the stage has not begun, requests included
  bool drained_ RAVNEST_GUARDED_BY(mutex_) = true;
  bool average_ RAVNEST_GUARDED_BY(mutex_) = false;  // asked for
  enum class LastRound : std::uint8_t {
    kNotAsked,
    kAsked,
    kHolds
  } last_round_ RAVNEST_GUARDED_BY(mutex_) = LastRound::kNotAsked;  // of this call, until a pass that trains is offered
  std::uint64_t updates_contained_ RAVNEST_GUARDED_BY(mutex_) = 0;
  // Asked for: the task, and whether what was called goes on.
  std::optional<std::pair<wire::Task, bool>> finish_ RAVNEST_GUARDED_BY(mutex_);
  std::optional<std::string> stop_ RAVNEST_GUARDED_BY(mutex_);
  std::deque<std::pair<std::string, wire::Checkpointing>> posted_ RAVNEST_GUARDED_BY(mutex_);
  std::vector<std::string> waiting_for_ RAVNEST_GUARDED_BY(mutex_);
  std::optional<Status> failure_ RAVNEST_GUARDED_BY(mutex_);
  DriverStatistics published_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace ravnest::cluster
