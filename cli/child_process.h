// A command that runs beside this one, with its output as lines.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/status.h"

namespace ravnest::cli {

struct ChildOptions {
  std::vector<std::string> command;  // the program, found along PATH, and its arguments
  // NAME=VALUE each, beside this process's own environment.
  std::vector<std::string> environment;
};

// The child leads a process group of its own, so that a terminal's Ctrl-C reaches it only through us, reads nothing,
// and dies with this process, however that ends. For the thread that started it.
class ChildProcess {
 public:
  using OnLine = std::function<void(std::string_view line)>;

  // A program that cannot be started is a child that ends with the status 127, as in a shell, and says so.
  static Result<std::unique_ptr<ChildProcess>> start(const ChildOptions& options);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  // Kills what still runs of it.
  ~ChildProcess();

  // To poll: readable when there is output, and when the child has ended. -1 once that is over.
  int output() const { return output_.number(); }
  int exit_descriptor() const { return exited_.number(); }

  // Hands over the whole lines that have come, without their ends. Does not wait.
  void read_output(const OnLine& on_line);
  // To all processes of its group.
  void signal(int number) const;
  // To be called once the exit descriptor is readable: ends what the child has left behind, hands over the rest of its
  // output, and gives its exit status as a shell does (128 and the signal's number for one that was killed).
  int wait(const OnLine& on_line);
  bool is_running() const { return process_ > 0; }

 private:
  ChildProcess(pid_t process, Descriptor output, Descriptor exited);
  void hand_over(const OnLine& on_line);

  pid_t process_ = -1;
  Descriptor output_;
  Descriptor exited_;
  std::string pending_;  // a line that has no end yet
};

}  // namespace ravnest::cli
