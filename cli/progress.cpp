#include "progress.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>

namespace ravnest::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void note_interrupt(int) { interrupted = 1; }

}  // namespace

Interruptible::Interruptible(std::string what) : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1) {
  interrupted = 0;
  std::signal(SIGINT, note_interrupt);
}

Interruptible::~Interruptible() { std::signal(SIGINT, SIG_DFL); }

bool Interruptible::report(double share) const {
  if (terminal_) std::fprintf(stderr, "\r%s %3.0f %%", what_.c_str(), 100 * share);
  return interrupted == 0;
}

void Interruptible::finish() const {
  if (terminal_) std::fprintf(stderr, "\r\033[K");
  if (interrupted != 0) throw std::runtime_error(what_ + " was interrupted");
}

}  // namespace ravnest::cli
