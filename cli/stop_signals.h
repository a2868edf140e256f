// Ctrl-C for commands that wait on the network.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace ravnest::cli {

// What shells say of a command that Ctrl-C has ended.
inline constexpr int kInterruptedStatus = 130;

// Ctrl-C, SIGTERM and, unless it is ignored as under nohup, SIGHUP as a descriptor that waiting calls watch, for as
// long as the object lives; with `also` that signal, too. To be made before any thread, since threads inherit what is
// blocked. A signal that no one took acts when the object goes.
class StopSignals {
 public:
  explicit StopSignals(int also = 0) {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    if (also > 0) ::sigaddset(&signals, also);
    struct sigaction hangup {};
    if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) ::sigaddset(&signals, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    descriptor_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() {
    ::close(descriptor_);
    if (!until_exit_) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  int descriptor() const { return descriptor_; }
  bool came() const {
    pollfd waiting = {descriptor_, POLLIN, 0};
    return ::poll(&waiting, 1, 0) == 1;
  }
  // All that came; the number of the last one, or 0.
  int take() const {
    signalfd_siginfo taken;
    int last = 0;
    while (::read(descriptor_, &taken, sizeof taken) > 0) last = static_cast<int>(taken.ssi_signo);
    return last;
  }
  // For a command that has done its work and is about to end: whatever comes from now on comes too late to end it.
  void block_until_exit() { until_exit_ = true; }

 private:
  bool until_exit_ = false;
  sigset_t before_{};
  int descriptor_ = -1;
};

}  // namespace ravnest::cli
