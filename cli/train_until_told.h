// A training that Ctrl-C ends in good order, and how a command ends after it.
#pragma once

#include <chrono>
#include <functional>
#include <iostream>
#include <string>

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

// Runs `training`, whose poll fails with "NAME was interrupted" once somebody wants it to end. Throws the exit status,
// with the reason on standard error, unless it went well. To be called before this process has threads. `background` is
// where the training tells others of failures.
inline void train_until_told(const std::string& name, Background& background,
                             const std::function<Status(const std::function<Status()>& poll)>& training) {
  StopSignals signals;
  bool interrupted = false;
  const Status ended = training([&]() -> Status {
    if (!signals.came()) return {};
    signals.take();
    interrupted = true;
    return cancelled(name, " was interrupted");
  });
  signals.block_until_exit();
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
