// A training that Ctrl-C ends in good order, and how a command ends after it.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "commands.h"
#include "last_words.h"
#include "ravnest/base/clock.h"
#include "ravnest/net/background.h"
#include "stop_signals.h"

namespace ravnest::cli {

// Until others are told of a failure. The status is settled: a signal only lets nobody wait for those who are not
// there.
inline void finish_telling(Background& background, const StopSignals& signals) {
  while (!background.done_by(SystemClock().now() + std::chrono::milliseconds(50))) {
    if (!signals.came()) continue;
    signals.take();
    background.hurry();
  }
}

// What a training asks and says while it runs.
struct Told {
  std::function<Status()> poll;  // fails with "NAME was interrupted" once somebody wants it to end at once
  // What SIGTERM and SIGUSR1, which machines send that are about to go, call instead, the first time: why the training
  // is to end with a checkpoint. False: it cannot, and is to end at once.
  std::function<bool(const std::string& why)> want_end = {};
  std::optional<std::string> ended_early = {};  // why it did so: this process or another one of the run was told to
};

// A process whose whole group or container is sent a signal may get it from its parent, too.
inline constexpr std::chrono::seconds kSameSignal{2};

// Whether the signal is one more of those that have asked the training to end.
inline bool is_the_same(int number, const std::optional<TimePoint>& asked) {
  return number != SIGINT && asked && SystemClock().now() - *asked < kSameSignal;
}

// Runs `training`. Throws the exit status, with the reason on standard error, unless it went well. To be called before
// this process has threads. `background` is where the training tells others of failures.
inline void train_until_told(const std::string& name, Background& background,
                             const std::function<Status(Told& told)>& training) {
  StopSignals signals(SIGUSR1);
  bool interrupted = false;
  std::optional<TimePoint> asked;
  Told told;
  told.poll = [&]() -> Status {
    if (!signals.came()) return {};
    const int number = signals.take();
    if (is_the_same(number, asked)) return {};
    const auto want_end = std::exchange(told.want_end, nullptr);
    if (want_end && (number == SIGTERM || number == SIGUSR1) &&
        want_end(number == SIGTERM ? "got SIGTERM" : "got SIGUSR1")) {
      asked = SystemClock().now();
      return {};
    }
    interrupted = true;
    return cancelled(name, " was interrupted");
  };
  const Status ended = training(told);
  if (told.ended_early) std::cerr << kOwn << *told.ended_early << "; --resume goes on from there" << std::endl;
  signals.block_until_exit();
  if (asked && signals.came() && !is_the_same(signals.take(), asked)) interrupted = true;
  // One that all get ends the run before the last of them has it.
  if (told.ended_early && signals.came() && signals.take() == SIGINT) interrupted = true;
  // Where all are interrupted at once this one may have heard of another's interruption before its own.
  if (interrupted || signals.came()) {
    std::cerr << kOwn << (ended.ok() ? name + " was interrupted when its run was over" : in_lines(ended.message()))
              << std::endl;
    background.hurry();
    finish_telling(background, signals);
    throw CLI::RuntimeError(kInterruptedStatus);
  }
  if (ended.ok()) return;
  std::cerr << kOwn << in_lines(ended.message()) << std::endl;  // before others have been told, which may take seconds
  finish_telling(background, signals);
  throw CLI::RuntimeError(1);
}

}  // namespace ravnest::cli
