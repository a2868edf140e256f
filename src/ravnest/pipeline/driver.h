// Runs one stage: between an endpoint, the stage's state machine and its worker.
//
// The thread that calls `run` is the stage's compute thread: it alone uses the worker, and waits for the network only
// when there is nothing to compute. All other functions are safe from any thread. Whatever happens to the run happens
// to all its stages: a lost peer, a worker's failure or a message that does not fit ends every `run` with the same
// sentence.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/log.h"
#include "ravnest/base/status.h"
#include "ravnest/pipeline/ending.h"
#include "ravnest/pipeline/inbox.h"
#include "ravnest/pipeline/outbox.h"
#include "ravnest/pipeline/stage.h"
#include "ravnest/pipeline/worker.h"
#include "ravnest/transport/endpoint.h"

namespace ravnest::pipeline {

struct DriverOptions {
  StageOptions stage;
  std::vector<std::string> nodes;  // the endpoint's names for the stages, by stage
  // Root: passes that may be offered ahead of those in flight, so that the next one is there when there is room.
  std::size_t offered_most = 2;
  // Root: what the leaf found, in the order of the passes; called by the compute thread.
  std::function<void(wire::Report)> on_report;
  Logger log;
};

struct DriverStatistics {
  StageCounts counts;
  double forward_s = 0;  // of computing, messages included
  double backward_s = 0;
  double update_s = 0;
  double running_s = 0;  // since the first pass began here, inside of `run`
  double busy_s() const { return forward_s + backward_s + update_s; }
};

class Driver {
 public:
  // All references outlive it. A driver may `run` several times, once for each call of the root's.
  Driver(DriverOptions options, transport::Endpoint& endpoint, Worker& worker);

  // Until the root's call is over, or the run has failed; the message then begins with the node that failed. After a
  // failure every further call returns the same.
  Status run();

  // Root: a pass to be computed. Waits while enough are waiting; kDeadline where that lasts. After a failure: the same
  // as `run` returns.
  Status offer(const Offer& offer, std::vector<wire::EdgeTensor> model_inputs, TimePoint deadline);
  // Root: until all that was offered is computed everywhere and reported.
  Status drain(TimePoint deadline);
  // Until the weights used here contain that many updates: others answer a pass before they update.
  Status catch_up(std::uint64_t updates, TimePoint deadline);
  // Root: the call is over when all that was offered is.
  void finish();
  // Ends the run everywhere. `reason` reads on after the node's name: "was interrupted".
  void stop(std::string reason);

  // As of the last work that was done.
  DriverStatistics statistics() const;

 private:
  Status run_call();
  void take_requests();
  void receive_all();
  void wait();
  void handle(transport::Event event);
  void handle(int from, const transport::PeerChange& change);
  Status handle(int from, wire::Message message);
  void perform(const Work& work);
  Result<std::vector<Outgoing>> compute(const Work& work);
  void take_report(wire::Report report);
  void fail(wire::Failed reason);
  void fail_here(const Status& status);
  bool call_is_over();
  void publish();
  Status end_alike();
  std::string sentence(const wire::Failed& failed) const;
  Status stopped() const;

  const DriverOptions options_;
  transport::Endpoint& endpoint_;
  Worker& worker_;
  const SystemClock clock_;

  // Of the compute thread.
  Stage stage_;
  Ending ending_;
  Inbox inbox_;
  Outbox outbox_;
  std::map<std::string, int> stage_of_;                       // by the node's name
  std::deque<std::vector<wire::EdgeTensor>> offered_inputs_;  // of the passes that the stage has not begun
  std::map<int, TimePoint> left_;                             // stages that closed their endpoints, and when
  std::uint64_t reports_ = 0;
  std::uint64_t calls_returned_ = 0;
  bool finishing_ = false;
  std::optional<TimePoint> began_;
  DriverStatistics own_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Offer, std::vector<wire::EdgeTensor>>> requests_;
  std::size_t unbegun_ = 0;  // offers that the stage has not begun, requests included
  bool drained_ = true;
  std::uint64_t updates_contained_ = 0;
  bool finish_ = false;
  std::optional<std::string> stop_;
  std::optional<Status> failure_;
  DriverStatistics published_;
};

}  // namespace ravnest::pipeline
