#include "ravnest/strategy/communicate/nccl_thread.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "ravnest/base/check.h"
#include "ravnest/net/background_tasks.h"

namespace ravnest::strategy {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A hot loop would take from NCCL the processor and the locks that it needs to get on.
constexpr Duration kFirstPause = microseconds(20);
constexpr Duration kLongestPause = milliseconds(5);
// For what is on its way when all is well. A peer that is gone would hold up the end for ever.
constexpr Duration kTimeToFinalize = std::chrono::seconds(2);

TimePoint now() { return std::chrono::steady_clock::now(); }

std::string first_line(std::string_view words) { return std::string(words.substr(0, words.find('\n'))); }

}  // namespace

NcclThread::NcclThread(const NcclLibrary& library, NcclThreadOptions options)
    : library_(library), options_(std::move(options)), thread_([this] { run(); }) {}

NcclThread::~NcclThread() { close(); }

std::uint64_t NcclThread::start(const nccl::UniqueId& id, TimePoint deadline) {
  return issue({.what = "start",
                .call =
                    [this, id](nccl::Comm*) {
                      nccl::Config config;
                      return library_.comm_init_rank_config(&comm_, options_.world, id, options_.rank, &config);
                    },
                .deadline = deadline});
}

std::uint64_t NcclThread::issue(NcclTask task) {
  const MutexLock lock(mutex_);
  if (why_.ok()) queue_.push_back(std::move(task));
  changed_.notify_all();
  return ++issued_;
}

Status NcclThread::wait_until_taken(std::uint64_t task, TimePoint deadline) {
  MutexLock lock(mutex_);
  const bool over =
      changed_.wait_until(mutex_, deadline, [&]() RAVNEST_REQUIRES(mutex_) { return taken_ >= task || !why_.ok(); });
  if (!over) return ravnest::deadline("NCCL has not taken the operation yet");
  return taken_ >= task ? Status() : why_;
}

Status NcclThread::outcome_of(std::uint64_t task) const {
  const MutexLock lock(mutex_);
  return complete_ >= task ? Status() : why_;
}

void NcclThread::abort(const Status& why) {
  RAVNEST_CHECK(!why.ok(), "an abort has a reason");
  fail(why);
}

void NcclThread::fail(const Status& why) {
  const MutexLock lock(mutex_);
  if (why_.ok()) why_ = why;
  changed_.notify_all();
}

void NcclThread::fail_unless_told(const Status& why) {
  if (why.code() == Code::kUnavailable) {
    const MutexLock lock(mutex_);
    changed_.wait_until(mutex_, now() + options_.time_for_reason,
                        [&]() RAVNEST_REQUIRES(mutex_) { return !why_.ok() || closing_; });
  }
  fail(why);
}

void NcclThread::close() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void NcclThread::run() {
  block_signals();
  std::deque<NcclTask> left;  // let go of without the lock: what tasks hold is theirs
  try {
    options_.prepare();
    MutexLock lock(mutex_);
    while (why_.ok() && !closing_) {
      if (queue_.empty()) {
        changed_.wait_until(mutex_, now() + kLongestPause);
        lock.unlock();
        keep_watch();
        lock.lock();
        continue;
      }
      current_ = std::move(queue_.front());
      queue_.pop_front();
      const std::uint64_t number = taken_ + 1;
      lock.unlock();
      carry_out(number);
      lock.lock();
    }
    if (closing_ && why_.ok() && !queue_.empty()) why_ = cancelled("the communicator was closed");
    queue_.swap(left);
    changed_.notify_all();
  } catch (const std::exception& error) {
    fail(unavailable("NCCL failed on rank ", options_.rank, " of ", options_.world, ": ", first_line(error.what())));
  }
  leave();
  current_ = {};
}

void NcclThread::carry_out(std::uint64_t number) {
  const Status status = settle(current_.call(comm_), current_);
  if (!status.ok()) {
    count_complete();
    fail_unless_told(status);
    return;
  }
  current_.taken();
  running_.push_back({number, std::move(current_.complete)});
  current_ = {};
  {
    const MutexLock lock(mutex_);
    taken_ = number;
    changed_.notify_all();
  }
  count_complete();
}

Status NcclThread::settle(nccl::Outcome outcome, const NcclTask& task) {
  Duration pause = kFirstPause;
  while (outcome == nccl::kInProgress) {
    {
      const MutexLock lock(mutex_);
      changed_.wait_until(mutex_, now() + pause);
      if (!why_.ok()) return why_;
      if (closing_) return cancelled("the communicator was closed");
    }
    if (task.deadline && now() > *task.deadline) {
      // Not kDeadline: that would read as if waiting on could help.
      return unavailable("NCCL's ", task.what, " did not end in time on rank ", options_.rank, " of ", options_.world,
                         ": the ranks do not reach each other. A firewall may close the ports that it takes, or it "
                         "takes another network card than the one between the machines: NCCL_SOCKET_IFNAME names the "
                         "right one, and NCCL_DEBUG=INFO shows what it does");
    }
    pause = std::min(2 * pause, kLongestPause);
    outcome = ask();
  }
  return outcome == nccl::kSuccess ? Status() : failure(task.what, outcome);
}

void NcclThread::keep_watch() {
  if (comm_ == nullptr) return;
  count_complete();
  if (const nccl::Outcome outcome = ask(); outcome != nccl::kSuccess && outcome != nccl::kInProgress) {
    count_complete();
    fail_unless_told(failure("connection", outcome));
  }
}

// Before an abort: afterwards all is complete, and worth nothing.
void NcclThread::count_complete() {
  std::uint64_t done = 0;
  while (!running_.empty() && running_.front().complete()) {
    done = running_.front().number;
    running_.pop_front();
  }
  if (done == 0) return;
  const MutexLock lock(mutex_);
  complete_ = done;
}

void NcclThread::leave() {
  if (comm_ == nullptr) return;
  const auto failed = [&] {
    const MutexLock lock(mutex_);
    return !why_.ok();
  };
  if (!failed()) {
    const TimePoint last = now() + kTimeToFinalize;
    nccl::Outcome outcome = library_.comm_finalize(comm_);
    while (outcome == nccl::kInProgress && !failed() && now() < last) {
      {
        const MutexLock lock(mutex_);
        changed_.wait_until(mutex_, now() + kLongestPause);
      }
      outcome = ask();
    }
    if (outcome == nccl::kSuccess) {
      library_.comm_destroy(std::exchange(comm_, nullptr));
      return;
    }
    fail(cancelled("the communicator was closed"));
  }
  library_.comm_abort(std::exchange(comm_, nullptr));
}

nccl::Outcome NcclThread::ask() const {
  nccl::Outcome outcome = nccl::kSuccess;
  const nccl::Outcome answer = library_.comm_get_async_error(comm_, &outcome);
  return answer == nccl::kSuccess ? outcome : answer;
}

Status NcclThread::failure(const std::string& what, nccl::Outcome outcome) const {
  const std::string sentence = text("NCCL's ", what, " failed on rank ", options_.rank, " of ", options_.world, ": ",
                                    nccl_reason(library_, outcome, comm_));
  if (outcome == nccl::kInvalidArgument) return internal(sentence);
  // Of its environment: two ranks on one GPU, for one.
  if (outcome == nccl::kInvalidUsage) return invalid(sentence);
  return unavailable(sentence);
}

}  // namespace ravnest::strategy
