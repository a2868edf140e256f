// `relay`: a network of a known rate, delay and reliability between programs on one machine.
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/status.h"
#include "relay/options.h"
#include "relay/relay.h"

namespace ravnest::relay {
namespace {

// Two descriptors for every connection; the usual limit of 1024 would be reached soon.
void allow_many_descriptors() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// To be called before there is any thread, since threads inherit what is blocked.
Descriptor stop_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC));
}

void print(const Statistics& counted) {
  std::cout << "relay: " << counted.connections << " connections, " << counted.cuts << " cut, " << counted.bytes_up
            << " bytes up, " << counted.bytes_down << " bytes down" << std::endl;
}

void obey(std::string_view command, Relay& relay) {
  if (command == "statistics") return print(relay.statistics());
  Status done;
  if (command == "cut") {
    relay.cut();
  } else if (command == "silent on" || command == "silent off") {
    relay.set_silent(command == "silent on");
  } else if (command == "refuse on" || command == "refuse off") {
    done = relay.set_refusing(command == "refuse on");
  } else {
    done = invalid("there is no such command");
  }
  std::cout << "relay: " << command << ": " << (done.ok() ? "done" : done.message()) << std::endl;
}

// Until a signal comes; the end of the commands is not the end of the relay.
void wait_and_obey(Relay& relay, const Descriptor& signals, bool takes_commands) {
  std::array<pollfd, 2> watched{{{signals.number(), POLLIN, 0}, {takes_commands ? STDIN_FILENO : -1, POLLIN, 0}}};
  std::string waiting;
  for (;;) {
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    if (watched[1].revents == 0) continue;
    std::array<char, 256> buffer{};
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count <= 0) watched[1].fd = -1;
    waiting.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    for (auto end = waiting.find('\n'); end != std::string::npos; end = waiting.find('\n')) {
      obey(std::string_view(waiting).substr(0, end), relay);
      waiting.erase(0, end + 1);
    }
  }
}

Status run(const Options& options) {
  const Descriptor signals = stop_signals();
  allow_many_descriptors();
  auto relay = Relay::open(options.listen, options.to, options.profile);
  if (!relay.ok()) return relay.status();
  std::cout << "relay: listening on " << relay->address() << std::endl;
  wait_and_obey(*relay, signals, options.takes_commands);
  print(relay->statistics());
  return {};
}

}  // namespace
}  // namespace ravnest::relay

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    if (std::string_view(arguments[i]) == "--help" || std::string_view(arguments[i]) == "-h") {
      std::cout << ravnest::relay::kHelp;
      return 0;
    }
  }
  const auto options = ravnest::relay::parse(count, arguments);
  const ravnest::Status status = options.ok() ? ravnest::relay::run(*options) : options.status();
  if (status.ok()) return 0;
  std::cerr << "relay: " << status.message() << '\n';
  return 1;
}
