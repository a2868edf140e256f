#include "child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace ravnest::cli {
namespace {

constexpr int kNotStarted = 127;
// A line longer than this is handed over in pieces.
constexpr std::size_t kLongestLine = std::size_t{1} << 16;

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(const std::vector<std::string>& own) {
  std::vector<std::string> result = own;
  for (char** each = ::environ; *each != nullptr; ++each) {
    const std::string_view inherited = *each;
    const std::string_view name = inherited.substr(0, inherited.find('=') + 1);
    bool replaced = false;
    for (const std::string& variable : own) replaced = replaced || variable.starts_with(name);
    if (!replaced) result.emplace_back(inherited);
  }
  return result;
}

// Between fork and exec: nothing here may allocate or lock.
[[noreturn]] void become(char* const* command, char* const* environment, int nothing, int output, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kNotStarted);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGINT, SIG_DFL);  // a shell ignores it in what it starts in the background, and we end processes by it
  ::signal(SIGXFSZ, SIG_DFL);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvpe(command[0], command, environment);
  const char* reason = ::strerrordesc_np(errno);
  for (const char* part : {"cannot start ", static_cast<const char*>(command[0]), ": ", reason, "\n"})
    static_cast<void>(!::write(STDERR_FILENO, part, std::strlen(part)));
  ::_exit(kNotStarted);
}

Status failed(std::string_view action) { return unavailable("cannot ", action, ": ", std::strerror(errno)); }

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const ChildOptions& options) {
  std::vector<std::string> words = options.command;
  std::vector<std::string> variables = environment_with(options.environment);
  const std::vector<char*> command = pointers(words);
  const std::vector<char*> environment = pointers(variables);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed("open a pipe");
  Descriptor output(ends[0]);
  const Descriptor written(ends[1]);
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.is_open()) return failed("open /dev/null");
  ::fcntl(output.number(), F_SETFL, O_NONBLOCK);
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) return failed("start a process");
  if (process == 0) become(command.data(), environment.data(), nothing.number(), written.number(), parent);
  ::setpgid(process, process);  // here too: whoever of us is first
  // The header of glibc 2.36 has no C linkage.
  Descriptor exited(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  // Made before what may fail, since it ends the process.
  std::unique_ptr<ChildProcess> child(new ChildProcess(process, std::move(output), std::move(exited)));
  if (child->exit_descriptor() < 0) return failed("watch a process");
  return child;
}

ChildProcess::ChildProcess(pid_t process, Descriptor output, Descriptor exited)
    : process_(process), output_(std::move(output)), exited_(std::move(exited)) {}

ChildProcess::~ChildProcess() {
  if (!is_running()) return;
  signal(SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

void ChildProcess::signal(int number) const {
  if (is_running()) ::kill(-process_, number);
}

void ChildProcess::read_output(const OnLine& on_line) {
  std::array<char, 4096> buffer;
  while (output_.is_open()) {
    const ssize_t got = ::read(output_.number(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      output_ = Descriptor();
      break;
    }
    pending_.append(buffer.data(), static_cast<std::size_t>(got));
    hand_over(on_line);
  }
}

void ChildProcess::hand_over(const OnLine& on_line) {
  std::size_t begin = 0;
  for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n', begin)) {
    on_line(std::string_view(pending_).substr(begin, end - begin));
    begin = end + 1;
  }
  pending_.erase(0, begin);
  if (pending_.size() >= kLongestLine) on_line(std::exchange(pending_, {}));
}

int ChildProcess::wait(const OnLine& on_line) {
  // While it is not waited for, its number is nobody else's.
  signal(SIGKILL);
  int status = 0;
  ::waitpid(std::exchange(process_, -1), &status, 0);
  exited_ = Descriptor();
  read_output(on_line);
  if (!pending_.empty()) on_line(std::exchange(pending_, {}));
  output_ = Descriptor();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace ravnest::cli
