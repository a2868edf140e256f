// The thread that makes all calls of one NCCL communicator, in the order of issue, and keeps watch over it.
//
// The communicator does not block: NCCL may answer a call with "in progress", and is then asked, with pauses, until it
// has taken the operation; from there on the operation is in the GPU's hands. Between calls the thread asks every few
// milliseconds whether something went wrong. A failure, a call of `abort`, or an end with work under way is answered by
// ncclCommAbort, which stops what NCCL has running on the GPU too. The first reason stays.
// Knows neither torch nor CUDA: what tasks do beside their call is theirs. All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/strategy/communicate/nccl_library.h"

namespace ravnest::strategy {

// All of it is called on the communicator's thread, and may throw.
struct NcclTask {
  std::string what = {};                                 // for sentences: "all-reduce"
  std::function<nccl::Outcome(nccl::Comm*)> call = {};   // the one call of NCCL
  std::function<void()> taken = [] {};                   // NCCL has put the operation into its stream
  std::function<bool()> complete = [] { return true; };  // whether it is done by now; asked after `taken`
  std::optional<TimePoint> deadline = std::nullopt;      // for being taken
};

struct NcclThreadOptions {
  int rank = 0;
  int world = 1;
  // NCCL says only that some rank is gone. Whoever knows which, and why, has so long to say it, by `abort`.
  Duration time_for_reason = Duration::zero();
  // The first thing that the thread does: what NCCL and the tasks want of a thread.
  std::function<void()> prepare = [] {};
};

class NcclThread {
 public:
  NcclThread(const NcclLibrary& library, NcclThreadOptions options);
  NcclThread(const NcclThread&) = delete;
  NcclThread& operator=(const NcclThread&) = delete;
  ~NcclThread();

  // Makes the communicator, as a task that is taken when all ranks have come, and fails as kUnavailable where
  // they have not by the deadline. Once, before all others.
  std::uint64_t start(const nccl::UniqueId& id, TimePoint deadline);
  // The same, and waits for it.
  Status connect(const nccl::UniqueId& id, TimePoint deadline) { return wait_until_taken(start(id, deadline)); }

  // Tasks are numbered from 1 in the order of issue.
  std::uint64_t issue(NcclTask task);
  // Waits until NCCL has taken the task. kDeadline where it has not by then.
  Status wait_until_taken(std::uint64_t task, TimePoint deadline = TimePoint::max());
  // Ok while nothing has failed, and for what was complete before.
  Status outcome_of(std::uint64_t task) const;

  // Every task that is not complete ends with `why`, which is not ok.
  void abort(const Status& why);
  // Ends the thread: in good order where every task is complete, or will be in a moment; otherwise by an abort, as
  // kCancelled. Once, by one thread; the destructor does it too.
  void close();

 private:
  void run();
  void carry_out(std::uint64_t number);
  // Asks until NCCL has done what it began.
  Status settle(nccl::Outcome outcome, const NcclTask& task);
  void keep_watch();
  void count_complete();
  void leave();
  void fail(const Status& why);
  void fail_unless_told(const Status& why);
  nccl::Outcome ask() const;
  Status failure(const std::string& what, nccl::Outcome outcome) const;

  const NcclLibrary library_;
  const NcclThreadOptions options_;

  // The thread's own.
  struct Running {
    std::uint64_t number;
    std::function<bool()> complete;
  };
  nccl::Comm* comm_ = nullptr;
  // The one that NCCL is being given. After a failure it is kept until the abort: NCCL may still write where it points.
  NcclTask current_;
  std::deque<Running> running_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<NcclTask> queue_ RAVNEST_GUARDED_BY(mutex_);
  std::uint64_t issued_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::uint64_t taken_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::uint64_t complete_ RAVNEST_GUARDED_BY(mutex_) = 0;
  Status why_ RAVNEST_GUARDED_BY(mutex_);
  bool closing_ RAVNEST_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace ravnest::strategy
