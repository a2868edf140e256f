// The ranks of a run after they have met: what happens to one happens to all, with one sentence.
//
// Owns the endpoint. A thread receives on Channel::kTraining and drives the ending (rank_ending.h): when a rank is
// lost, when another one tells that it has failed, or when this one does, every rank ends with the same reason within
// seconds. Channel::kAveraging, and sending, are for the communicators.
//
// A rank that has left in good order is not a failure by itself: ranks end their last step one after the other. It is
// one for a rank that still needs it, which shows when a collective breaks: whoever owns that asks `why`. All functions
// are safe from any thread, but for the destructor.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "ravnest/base/clock.h"
#include "ravnest/base/log.h"
#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/strategy/launch/rank_ending.h"
#include "ravnest/strategy/launch/rendezvous.h"
#include "ravnest/transport/endpoint.h"

namespace ravnest::strategy {

struct RanksOptions {
  // Called once when the run has failed and the ranks agree on why, by the thread of Ranks: for aborting communicators.
  // It must not call `leave` nor destroy the Ranks.
  std::function<void(const Status& why)> on_failure = {};
  Logger log = Logger();
};

class Ranks {
 public:
  explicit Ranks(Met met, RanksOptions options = {});
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  // Without `leave` before, the others see this rank as lost.
  ~Ranks();

  int rank() const { return met_.rank; }
  int world() const { return met_.world; }
  transport::Endpoint& endpoint() { return *met_.endpoint; }
  // For messages: "rank 3 (10.0.0.2)".
  std::string shown(int rank) const;

  // The step that is under way, for messages: "rank 3 (10.0.0.2) was lost at step 812".
  void at_step(std::uint64_t step);

  // Sets what on_failure does; where the run has failed already it is called here and now.
  void on_failure(std::function<void(const Status& why)> call);

  // ok while the run goes on; afterwards why it ended, the same sentence on every rank.
  Status status() const;

  // Ends the run on all ranks. `reason` reads on after this rank's name: "was interrupted", "has run out of memory:
  // ...". Returns what the run ends with, which may be another's earlier reason, once the ranks agree.
  Status fail(const std::string& reason);
  // The same with a whole sentence, about what all ranks see alike and no one has done alone.
  Status end(const std::string& sentence);

  // Something that needs the other ranks broke here, with `seen`: returns what the run ends with, once the ranks agree.
  // Where nobody else knows of a failure within a moment, this one ends the run. That may take seconds: where `poll`
  // fails meanwhile, it returns what that says, and the run goes on to its end.
  Status why(const Status& seen, const Poll& poll = {});

  // This rank needs the others no more and all its messages have arrived, or the deadline comes: closes the endpoint in
  // good order. Returns what the run has ended with, where it has failed.
  Status leave(TimePoint deadline);

 private:
  void run();
  void handle(transport::Event event) RAVNEST_REQUIRES(mutex_);
  void tell(const RankEnding::ToTell& reason) RAVNEST_REQUIRES(mutex_);
  void look();
  Status wait_for_end() RAVNEST_REQUIRES(mutex_);

  Met met_;
  const Logger log_;
  const SystemClock clock_;
  std::atomic<bool> stopping_ = false;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  RankEnding ending_ RAVNEST_GUARDED_BY(mutex_);
  std::function<void(const Status&)> on_failure_ RAVNEST_GUARDED_BY(mutex_);
  bool leaving_ RAVNEST_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ravnest::strategy
