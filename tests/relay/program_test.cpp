// The program, as tests in other languages start it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ravnest/base/descriptor.h"
#include "ravnest/net/address.h"
#include "relay/relay_testing.h"

namespace ravnest::relay {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::pair<Descriptor, Descriptor> make_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    auto [child_in, in] = make_pipe();
    auto [out, child_out] = make_pipe();
    arguments.insert(arguments.begin(), RELAY_PROGRAM);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(child_in.number(), STDIN_FILENO);
      ::dup2(child_out.number(), STDOUT_FILENO);
      ::dup2(child_out.number(), STDERR_FILENO);
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
    in_ = std::move(in);
    out_ = std::move(out);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  // The next line without its end; empty where none comes in time.
  std::string line() {
    std::string line;
    for (char c = 0; read(c) && c != '\n';) line += c;
    return line;
  }
  void say(const std::string& command) const {
    const std::string written = command + "\n";
    EXPECT_EQ(::write(in_.number(), written.data(), written.size()), static_cast<ssize_t>(written.size()));
  }
  void signal(int number) const { EXPECT_EQ(::kill(process_, number), 0); }
  // Reads on to the end of its output, then says how it ended.
  int ended() {
    for (char c = 0; read(c);) {
    }
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(process_, -1), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  bool read(char& c) {
    pollfd watched{out_.number(), POLLIN, 0};
    return ::poll(&watched, 1, 60'000) == 1 && ::read(out_.number(), &c, 1) == 1;
  }

  pid_t process_ = -1;
  Descriptor in_;
  Descriptor out_;
};

Result<Address> listening(Program& program) {
  const std::string line = program.line();
  constexpr std::string_view kBegin = "relay: listening on ";
  EXPECT_THAT(line, StartsWith(std::string(kBegin)));
  return parse_address(std::string_view(line).substr(std::min(kBegin.size(), line.size())));
}

TEST(RelayProgram, CarriesWithTheProfileAndEndsOnASignalWithItsStatistics) {
  auto server = Listener::open("127.0.0.1", 0);
  ASSERT_TRUE(server.ok()) << server.status();
  Program program({"--listen", "127.0.0.1:0", "--to", text(Address{"127.0.0.1", server->port()}), "--profile",
                   "10mbps-150ms", "--delay-ms", "40"});
  const auto address = listening(program);
  ASSERT_TRUE(address.ok()) << address.status();
  auto client = Socket::connect(*address, soon());
  ASSERT_TRUE(client.ok()) << client.status();
  Socket reached = server->accept(soon()).value();
  const TimePoint start = SystemClock().now();
  ASSERT_TRUE(client->send(sample_bytes(5), soon()).ok());
  EXPECT_EQ(receive_all(reached, 5).bytes, sample_bytes(5));
  EXPECT_GE(SystemClock().now() - start, std::chrono::milliseconds(20));
  program.signal(SIGTERM);
  EXPECT_EQ(program.line(), "relay: 1 connections, 0 cut, 5 bytes up, 0 bytes down");
  EXPECT_EQ(program.ended(), 0);
}

TEST(RelayProgram, TakesCommandsFromStandardInput) {
  auto server = Listener::open("127.0.0.1", 0);
  ASSERT_TRUE(server.ok()) << server.status();
  Program program({"--commands", "--to", text(Address{"127.0.0.1", server->port()})});
  const auto address = listening(program);
  ASSERT_TRUE(address.ok()) << address.status();
  auto client = Socket::connect(*address, soon());
  ASSERT_TRUE(client.ok()) << client.status();
  program.say("cut");
  EXPECT_EQ(program.line(), "relay: cut: done");
  EXPECT_TRUE(is_reset(receive_all(*client)));
  program.say("refuse on");
  EXPECT_EQ(program.line(), "relay: refuse on: done");
  EXPECT_FALSE(Socket::connect(*address, soon()).ok());
  program.say("refuse off\nsilent on\nsilent off\nstatistics\nexplode");
  EXPECT_EQ(program.line(), "relay: refuse off: done");
  EXPECT_EQ(program.line(), "relay: silent on: done");
  EXPECT_EQ(program.line(), "relay: silent off: done");
  EXPECT_EQ(program.line(), "relay: 1 connections, 1 cut, 0 bytes up, 0 bytes down");
  EXPECT_THAT(program.line(), HasSubstr("no such command"));
  EXPECT_TRUE(Socket::connect(*address, soon()).ok());
  program.signal(SIGINT);
  EXPECT_EQ(program.ended(), 0);
}

TEST(RelayProgram, SaysWhatIsWrongWithItsOptions) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{}, "--to HOST:PORT is missing"},
      {{"--to", "127.0.0.1"}, "--to: "},
      {{"--profile", "dial-up"}, "there is no profile \"dial-up\""},
      {{"--mbps", "fast"}, "\"fast\" is not a number"},
      {{"--speed", "1"}, "--speed: there is no such option"},
      {{"--seed"}, "a value is missing"},
      {{"--to", "127.0.0.1:1", "--cut-min", "5"}, "the range is empty"},
  };
  for (const auto& [arguments, message] : wrong) {
    Program program(arguments);
    EXPECT_THAT(program.line(), HasSubstr(message));
    EXPECT_EQ(program.ended(), 1);
  }
  Program help({"--help"});
  EXPECT_THAT(help.line(), StartsWith("A TCP relay"));
  EXPECT_EQ(help.ended(), 0);
}

}  // namespace
}  // namespace ravnest::relay
