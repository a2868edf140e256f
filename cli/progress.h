// One line of progress on a terminal, and Ctrl-C as a polite request to stop.
#pragma once

#include <string>

namespace ravnest::cli {

// While it lives, SIGINT does not end the process but makes `report` return false; `finish` then ends the command as
// Ctrl-C would have. One at a time. Prints to stderr, and only where that is a terminal.
class Interruptible {
 public:
  explicit Interruptible(std::string what);
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible();

  bool report(double share) const;
  // Clears the line. Throws where the user has interrupted.
  void finish() const;

 private:
  std::string what_;
  bool terminal_;
};

}  // namespace ravnest::cli
