// Ctrl-C for commands that wait on the network.
#pragma once

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace ravnest::cli {

// Ctrl-C and the like as a descriptor that waiting calls watch, for as long as the object lives. To be made before any
// thread, since threads inherit what is blocked. A signal that no one took acts when the object goes.
class StopSignals {
 public:
  StopSignals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    descriptor_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() {
    ::close(descriptor_);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  int descriptor() const { return descriptor_; }
  void take() const {
    signalfd_siginfo taken;
    while (::read(descriptor_, &taken, sizeof taken) > 0) {
    }
  }

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

}  // namespace ravnest::cli
