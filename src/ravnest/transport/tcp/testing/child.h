// A program that a test starts and ends; it never outlives the test.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/descriptor.h"

extern char** environ;

namespace ravnest::transport::tcp {

class Child {
 public:
  // Its standard input is a pipe that ends with this object.
  explicit Child(std::vector<std::string> command) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return;
    const Descriptor reading(pipe[0]);
    input_ = Descriptor(pipe[1]);
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, reading.number(), 0);
    if (::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) pid_ = -1;
    ::posix_spawn_file_actions_destroy(&actions);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill(); }

  bool runs() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  // As kill -9, and waits until it is gone.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
  Descriptor input_;
};

}  // namespace ravnest::transport::tcp
