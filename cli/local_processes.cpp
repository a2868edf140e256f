#include "local_processes.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "child_process.h"
#include "last_words.h"

namespace ravnest::cli {
namespace {

constexpr Duration kAfterInterrupt = std::chrono::seconds(5);

struct Member {
  std::string name;
  std::unique_ptr<ChildProcess> process;
  int status = 0;  // once it has ended
};

class RunningProcesses {
 public:
  RunningProcesses(std::string what, Duration after_failure, const StopSignals& signals)
      : what_(std::move(what)), after_failure_(after_failure), signals_(signals) {}

  Status start(const LocalProcess& member) {
    ChildOptions options{member.command, member.environment};
    // Python keeps lines back for a pipe; people are to see them when they are written, as on a terminal.
    if (std::getenv("PYTHONUNBUFFERED") == nullptr) options.environment.emplace_back("PYTHONUNBUFFERED=1");
    auto process = ChildProcess::start(options);
    if (!process.ok()) return process.status();
    width_ = std::max(width_, member.name.size());
    members_.push_back({member.name, *std::move(process)});
    return {};
  }

  // Until all have ended.
  int wait() {
    while (is_anyone_running()) {
      watch();
      for (Member& member : members_) look_after(member);
      if (signals_.came()) on_signal(signals_.take());
      if (deadline_ && SystemClock().now() >= *deadline_) escalate();
    }
    was_interrupted_ = was_interrupted_ || signals_.came();
    say_why();
    return was_interrupted_ ? kInterruptedStatus : status_;
  }

 private:
  bool is_anyone_running() const {
    return std::ranges::any_of(members_, [](const Member& member) { return member.process->is_running(); });
  }

  void watch() const {
    std::vector<pollfd> waiting = {{signals_.descriptor(), POLLIN, 0}};
    for (const Member& member : members_) {
      waiting.push_back({member.process->output(), POLLIN, 0});
      waiting.push_back({member.process->exit_descriptor(), POLLIN, 0});
    }
    int timeout_ms = -1;
    if (deadline_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - SystemClock().now()).count();
      timeout_ms = static_cast<int>(std::max<std::int64_t>(left, 0));
    }
    ::poll(waiting.data(), waiting.size(), timeout_ms);
  }

  void show(const Member& member, const std::vector<std::string>& lines) const {
    for (const std::string& line : lines)
      std::cout << std::left << std::setw(static_cast<int>(width_)) << member.name << " | " << line << std::endl;
  }

  void look_after(Member& member) {
    const auto take = [&](std::string_view line) {
      if (line.ends_with('\r')) line.remove_suffix(1);
      show(member, last_words_.on_line(member.name, line));
    };
    ChildProcess& process = *member.process;
    process.read_output(take);
    pollfd exited = {process.exit_descriptor(), POLLIN, 0};
    if (!process.is_running() || ::poll(&exited, 1, 0) != 1) return;
    member.status = process.wait(take);
    show(member, last_words_.on_end(member.name, member.status));
    if (member.status == 0) return;
    show(member, {text("(ended with the status ", member.status, ")")});
    if (passed_on_ != 0 && (member.status == kInterruptedStatus || member.status == 128 + passed_on_)) {
      // It makes no checkpoint, or had nothing to keep yet.
      was_interrupted_ = true;
      if (!deadline_) deadline_ = SystemClock().now() + kAfterInterrupt;
    }
    // One that somebody else has interrupted is why the others fail, even where they end before it does.
    const bool interrupted = member.status == kInterruptedStatus && !was_asked_;
    if (was_interrupted_ || (status_ != 0 && !interrupted)) return;
    status_ = member.status;
    if (!deadline_) deadline_ = SystemClock().now() + after_failure_;
  }

  void signal(int number) const {
    for (const Member& member : members_) member.process->signal(number);
  }

  // What all processes have to say of one failure, after everything else. That one was interrupted is no news where it
  // was we who did it, nor what those had to say of Ctrl-C that were killed since they took too long to end. After a
  // failure it is: the reason may be theirs.
  void say_why() {
    if (was_interrupted_) std::cerr << "ravnest: the run was interrupted" << std::endl;
    for (const Member& member : members_) {
      const bool was_killed_by_us = member.status == 128 + SIGKILL && was_killed_ && was_interrupted_;
      const bool by_us = member.status == kInterruptedStatus && (was_asked_ || was_interrupted_);
      if (by_us || was_killed_by_us) last_words_.forget(member.name);
    }
    const std::vector<std::string> sentences = last_words_.sentences();
    if (sentences.empty() && status_ != 0) std::cerr << "ravnest: " << last_words_.first_failure() << std::endl;
    for (const std::string& sentence : sentences) std::cerr << "ravnest: " << sentence << std::endl;
  }

  // What machines send that are about to go is passed on as it is, the first time: processes that make checkpoints end
  // well by themselves, in their own time.
  void on_signal(int number) {
    const bool passes_on = (number == SIGTERM || number == SIGUSR1) && !was_interrupted_ && passed_on_ == 0;
    if (!passes_on) return interrupt();
    passed_on_ = number;
    std::cerr << "ravnest: passing " << (number == SIGTERM ? "SIGTERM" : "SIGUSR1") << " on to all " << what_
              << std::endl;
    signal(number);
  }

  // A second Ctrl-C is meant.
  void interrupt() {
    if (std::exchange(was_interrupted_, true)) {
      escalate();
      return;
    }
    std::cerr << "ravnest: ending all " << what_ << "; Ctrl-C again kills them" << std::endl;
    ask_to_end();
  }

  void ask_to_end() {
    was_asked_ = true;
    signal(SIGINT);
    deadline_ = SystemClock().now() + kAfterInterrupt;
  }

  void escalate() {
    if (!was_asked_) {
      ask_to_end();
      return;
    }
    was_killed_ = true;
    signal(SIGKILL);
    deadline_.reset();
  }

  const std::string what_;
  const Duration after_failure_;
  const StopSignals& signals_;
  std::size_t width_ = 0;  // of the longest name
  LastWords last_words_;
  std::vector<Member> members_;
  int status_ = 0;
  int passed_on_ = 0;  // the signal that was
  bool was_interrupted_ = false;
  bool was_asked_ = false;             // to end, as Ctrl-C does
  bool was_killed_ = false;            // having been asked
  std::optional<TimePoint> deadline_;  // after which those that still run are made to end
};

}  // namespace

Result<int> run_local_processes(const LocalRun& run, const StopSignals& signals) {
  RunningProcesses running(run.what, run.after_failure, signals);
  for (const LocalProcess& process : run.processes) {
    if (Status started = running.start(process); !started.ok()) return started;
  }
  return running.wait();
}

}  // namespace ravnest::cli
