// A training that Ctrl-C ends in good order, and how a command ends after it.
#pragma once

#include <functional>
#include <iostream>
#include <string>

#include "commands.h"
#include "stop_signals.h"

namespace ravnest::cli {

// Runs `training`, whose poll fails with "NAME was interrupted" once somebody wants it to end. Throws the exit status,
// with the reason on standard error, unless it went well. To be called before this process has threads.
inline void train_until_told(const std::string& name,
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
    std::cerr << "ravnest: " << (ended.ok() ? name + " was interrupted when its run was over" : ended.message())
              << std::endl;
    throw CLI::RuntimeError(kInterruptedStatus);
  }
  if (ended.ok()) return;
  std::cerr << "ravnest: " << ended.message() << std::endl;  // before others have been told, which may take seconds
  throw CLI::RuntimeError(1);
}

}  // namespace ravnest::cli
