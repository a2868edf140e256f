// Processes of this machine that are parts of one run: one view of them all, and one end.
#pragma once

#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "stop_signals.h"

namespace ravnest::cli {

struct LocalProcess {
  std::string name;  // what stands in front of its lines, and what others call it
  std::vector<std::string> command;
  std::vector<std::string> environment;  // NAME=VALUE each, beside this process's own
};

struct LocalRun {
  std::string what;  // what its processes are to people: "nodes"
  std::vector<LocalProcess> processes;
  // Parts of a run end by themselves when another one fails, since they lose it. Those that have not done so after this
  // time, as where they never met, are interrupted.
  Duration after_failure;
};

// Starts all of them and shows their lines on stdout, each with the name of its process in front, until the last one
// has ended. SIGTERM and SIGUSR1, the first of them, are passed on as they are, and who makes checkpoints ends with
// one. Another signal is passed on as an interrupt (SIGINT), which all are given five seconds to follow; then, or at
// another one, they are killed. What the run has to say last, once for all of them, is on stderr.
//
// Returns 0 where all did well, kInterruptedStatus after a signal, otherwise the exit status of the first that failed.
// Nothing of the run is left behind, and where this process is killed its processes go too. A failed Status: one could
// not be started, and there are none. For the thread that made `signals`; it must stay for as long as they run.
Result<int> run_local_processes(const LocalRun& run, const StopSignals& signals);

}  // namespace ravnest::cli
