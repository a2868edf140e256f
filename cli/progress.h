// One line of progress on a terminal, and Ctrl-C as a polite request to stop.
#pragma once

#include <string>

namespace ravnest::cli {

// While it lives, SIGINT, SIGTERM and, unless it is ignored as under nohup, SIGHUP do not end the process but make
// `report` return false; `finish` then ends the command with a sentence and the status of an interrupted one. A second
// one ends the process at once. One at a time. Progress goes to stderr, and only where that is a terminal.
class Interruptible {
 public:
  explicit Interruptible(std::string what);
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible();

  // `more` stands behind the share, such as a rate.
  bool report(double share, const std::string& more = "") const;
  // Whether `report` would return true; says nothing.
  static bool may_go_on();
  // Clears the line. Throws the exit status where the user has interrupted; `over` says that it was all done by then;
  // `advice` ends the sentence of an interrupted one.
  void finish(bool over = false, const std::string& advice = "") const;

 private:
  std::string what_;
  bool terminal_;
};

}  // namespace ravnest::cli
