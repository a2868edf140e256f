#include "progress.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "stop_signals.h"

namespace ravnest::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void note_interrupt(int) {
  if (interrupted != 0) ::_exit(kInterruptedStatus);
  interrupted = 1;
}

void set_handlers(void (*handler)(int)) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction present {};
    const bool ignored = ::sigaction(number, nullptr, &present) == 0 && present.sa_handler == SIG_IGN;
    if (!ignored) std::signal(number, handler);
  }
}

}  // namespace

Interruptible::Interruptible(std::string what) : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1) {
  interrupted = 0;
  set_handlers(note_interrupt);
}

Interruptible::~Interruptible() { set_handlers(SIG_DFL); }

bool Interruptible::report(double share, const std::string& more) const {
  if (terminal_) {
    const char* clear_rest = more.empty() ? "" : "\033[K";
    std::fprintf(stderr, "\r%s %3.0f %%%s%s", what_.c_str(), 100 * share, more.c_str(), clear_rest);
  }
  return may_go_on();
}

bool Interruptible::may_go_on() { return interrupted == 0; }

void Interruptible::finish(bool over, const std::string& advice) const {
  if (terminal_) std::fprintf(stderr, "\r\033[K");
  if (interrupted == 0) return;
  std::cerr << "ravnest: " << what_ << (over ? " was interrupted when it was over" : " was interrupted" + advice)
            << std::endl;
  throw CLI::RuntimeError(kInterruptedStatus);
}

}  // namespace ravnest::cli
