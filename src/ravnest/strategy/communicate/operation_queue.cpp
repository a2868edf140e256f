#include "ravnest/strategy/communicate/operation_queue.h"

#include <cstdint>
#include <deque>
#include <exception>
#include <utility>

#include "ravnest/base/check.h"
#include "ravnest/base/mutex.h"

namespace ravnest::strategy {
namespace {

Status carry_out(const OperationQueue::Operation& operation) {
  try {
    return operation();
  } catch (const std::exception& error) {
    return internal(error.what());
  }
}

}  // namespace

struct OperationQueue::State {
  Mutex mutex;
  ConditionVariable work;   // for the thread
  ConditionVariable ended;  // for those who wait
  std::deque<Operation> waiting RAVNEST_GUARDED_BY(mutex);
  std::uint64_t begun RAVNEST_GUARDED_BY(mutex) = 0;
  std::uint64_t complete RAVNEST_GUARDED_BY(mutex) = 0;  // the first ones of those
  Status broken RAVNEST_GUARDED_BY(mutex);

  // The first reason holds. Returns what is not to be carried out any more, to be let go of without the lock.
  std::deque<Operation> break_off(const Status& why) RAVNEST_REQUIRES(mutex) {
    if (broken.ok()) broken = why;
    work.notify_all();
    ended.notify_all();
    return std::exchange(waiting, {});
  }
};

class OperationQueue::Begun final : public Pending {
 public:
  Begun(std::shared_ptr<State> state, std::uint64_t number) : state_(std::move(state)), number_(number) {}

  Status wait_until(TimePoint deadline) override {
    const MutexLock lock(state_->mutex);
    while (state_->complete <= number_ && state_->broken.ok()) {
      if (SystemClock().now() >= deadline) return ravnest::deadline("the operation is not complete yet");
      state_->ended.wait_until(state_->mutex, deadline);
    }
    return state_->complete > number_ ? Status() : state_->broken;
  }

 private:
  const std::shared_ptr<State> state_;
  const std::uint64_t number_;
};

OperationQueue::OperationQueue(std::function<void(const Status&)> interrupt)
    : interrupt_(std::move(interrupt)),
      state_(std::make_shared<State>()),
      thread_([state = state_.get()] { run(*state); }) {}

OperationQueue::~OperationQueue() {
  abort(cancelled("the communicator was closed"));
  thread_.join();
}

std::shared_ptr<Pending> OperationQueue::add(Operation operation) {
  const MutexLock lock(state_->mutex);
  const std::uint64_t number = state_->begun++;
  if (state_->broken.ok()) {
    state_->waiting.push_back(std::move(operation));
    state_->work.notify_one();
  }
  return std::make_shared<Begun>(state_, number);
}

void OperationQueue::abort(const Status& why) {
  RAVNEST_CHECK(!why.ok(), "an abort without a reason");
  std::deque<Operation> dropped;
  {
    const MutexLock lock(state_->mutex);
    dropped = state_->break_off(why);
  }
  interrupt_(why);
}

void OperationQueue::run(State& state) {
  for (;;) {
    Operation operation;
    {
      const MutexLock lock(state.mutex);
      while (state.waiting.empty() && state.broken.ok()) state.work.wait(state.mutex);
      if (!state.broken.ok()) return;
      operation = std::move(state.waiting.front());
      state.waiting.pop_front();
    }
    const Status done = carry_out(operation);
    operation = nullptr;  // whoever waits may count on it that nothing is held any more
    std::deque<Operation> dropped;
    const MutexLock lock(state.mutex);
    if (!done.ok()) {
      dropped = state.break_off(done);
      return;
    }
    if (!state.broken.ok()) return;  // whoever waited has been told so
    ++state.complete;
    RAVNEST_CHECK(state.complete <= state.begun, state.complete, " operations complete of ", state.begun);
    state.ended.notify_all();
  }
}

}  // namespace ravnest::strategy
