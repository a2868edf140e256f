// For tests: the ranks of a run as threads of this process, over real sockets and TLS on loopback.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string>
#include <thread>
#include <utility>

#include "ravnest/base/mutex.h"
#include "ravnest/net/testing/free_port.h"
#include "ravnest/strategy/launch/rendezvous.h"

namespace ravnest::strategy {

// What a logger says, as it says it.
class Overheard {
 public:
  Logger logger() { return Logger("test", Level::kInfo, stream_); }
  // Whether it was said, within a minute.
  bool hears(const std::string& words) {
    const TimePoint until = SystemClock().now() + std::chrono::seconds(60);
    while (SystemClock().now() < until) {
      if (text().find(words) != std::string::npos) return true;
      std::this_thread::yield();
    }
    return false;
  }
  std::string text() { return buffer_.text(); }

 private:
  class Buffer final : public std::streambuf {
   public:
    std::string text() {
      const MutexLock lock(mutex_);
      return text_;
    }

   protected:
    std::streamsize xsputn(const char* said, std::streamsize size) override {
      const MutexLock lock(mutex_);
      text_.append(said, static_cast<std::size_t>(size));
      return size;
    }
    int overflow(int letter) override {
      const MutexLock lock(mutex_);
      text_ += static_cast<char>(letter);
      return letter;
    }

   private:
    Mutex mutex_;
    std::string text_ RAVNEST_GUARDED_BY(mutex_);
  };

  Buffer buffer_;
  std::ostream stream_{&buffer_};
};

class TestRun {
 public:
  explicit TestRun(int world) : world_(world), master_{"127.0.0.1", free_port()} {}
  TestRun(const TestRun&) = delete;
  TestRun& operator=(const TestRun&) = delete;
  ~TestRun() {
    for (auto& [number, process] : processes_) process->thread.join();
  }

  const RunToken& token() const { return token_; }
  const Address& master() const { return master_; }

  RendezvousOptions options(int rank) const {
    RendezvousOptions options;
    options.place.rank = rank;
    options.place.world = world_;
    options.place.master = master_;
    options.place.run_id = "a run";
    options.token = token_;
    options.settings = {{"model", "a1b2"}};
    options.software = "1.0";
    options.log = Logger("test", Level::kOff);
    return options;
  }

  // A process of the run, in a thread; returns its number. It ends by itself after a minute.
  int start(RendezvousOptions options) {
    return start([options = std::move(options)](const Poll& poll) { return strategy::meet(options, poll); });
  }
  int start(int rank) { return start(options(rank)); }
  // One that can not be part of the run.
  int start_withdrawn(RendezvousOptions options, const std::string& reason) {
    return start([=](const Poll& poll) -> Result<Met> { return strategy::withdraw(options, reason, poll); });
  }

  int start(const std::function<Result<Met>(const Poll& poll)>& meet) {
    const int number = next_++;
    auto& process = processes_[number];
    process = std::make_unique<Process>();
    process->thread = std::thread([&own = *process, meet] {
      const TimePoint until = SystemClock().now() + std::chrono::seconds(60);
      auto met = meet([&own, until]() -> Status {
        ++own.polls;
        if (own.interrupted) return cancelled("interrupted");
        return SystemClock().now() < until ? Status() : deadline("the test's patience is over");
      });
      const MutexLock lock(own.mutex);
      own.met = std::move(met);
      own.changed.notify_all();
    });
    return number;
  }

  // Until the process has asked whether to go on that often: it waits for others by then.
  void wait_until_it_waits(int number) {
    const Process& process = *processes_.at(number);
    while (process.polls < 5 && !is_over(number)) std::this_thread::yield();
  }
  void interrupt(int number) { processes_.at(number)->interrupted = true; }

  // What meet() returned.
  Result<Met>& outcome(int number) {
    Process& process = *processes_.at(number);
    const MutexLock lock(process.mutex);
    process.changed.wait(process.mutex, [&]() RAVNEST_REQUIRES(process.mutex) { return process.met.has_value(); });
    return *process.met;
  }
  Status status(int number) { return outcome(number).status(); }

 private:
  struct Process {
    std::thread thread;
    std::atomic<int> polls = 0;
    std::atomic<bool> interrupted = false;
    Mutex mutex;
    ConditionVariable changed;
    std::optional<Result<Met>> met RAVNEST_GUARDED_BY(mutex);
  };

  bool is_over(int number) {
    Process& process = *processes_.at(number);
    const MutexLock lock(process.mutex);
    return process.met.has_value();
  }

  const int world_;
  const RunToken token_ = *RunToken::create();
  const Address master_;
  int next_ = 0;
  std::map<int, std::unique_ptr<Process>> processes_;
};

}  // namespace ravnest::strategy
