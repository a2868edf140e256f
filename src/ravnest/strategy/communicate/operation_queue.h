// One thread that carries out operations in the order of issue, and those who wait for them.
//
// The first failure ends all: the operation's own, or an abort. What was waiting to be carried out is then dropped, and
// whoever waits for it is told the reason. `add` is for one thread at a time, `abort` and `wait` for any.
// What was begun may be waited for when the queue is gone.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "ravnest/base/status.h"
#include "ravnest/strategy/communicate/pending.h"

namespace ravnest::strategy {

class OperationQueue {
 public:
  // Runs on the queue's thread. What it throws is a failure.
  using Operation = std::function<Status()>;

  // `interrupt` is to make the operation under way, if any, end soon; it is called by the thread that aborts.
  explicit OperationQueue(std::function<void(const Status&)> interrupt);
  // Aborts with kCancelled, and waits for the operation under way.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  std::shared_ptr<Pending> add(Operation operation);
  // All waits for what is not complete end with `why` at once; the operation under way may still take a moment.
  void abort(const Status& why);

 private:
  struct State;
  class Begun;

  static void run(State& state);

  const std::function<void(const Status&)> interrupt_;
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace ravnest::strategy
