// The commands that need no torch, as processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "ravnest/base/descriptor.h"
#include "ravnest/doctor/testing/node_data.h"
#include "ravnest/plan/files/write.h"

namespace ravnest::doctor {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// `ravnest ARGUMENTS`, its output and errors together.
class Command {
 public:
  explicit Command(std::vector<std::string> arguments) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    out_ = Descriptor(ends[0]);
    const Descriptor child_out(ends[1]);
    arguments.insert(arguments.begin(), RAVNEST_PROGRAM);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(child_out.number(), STDOUT_FILENO);
      ::dup2(child_out.number(), STDERR_FILENO);
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  // All that it says, up to the words or to the end.
  const std::string& output_until(const std::string& words = "") {
    while (words.empty() || said_.find(words) == std::string::npos) {
      std::array<char, 4096> some{};
      if (!wait_for(out_.number(), POLLIN, Wait::of(kTestTime)).ok()) break;
      const ssize_t size = ::read(out_.number(), some.data(), some.size());
      if (size <= 0) break;
      said_.append(some.data(), static_cast<std::size_t>(size));
    }
    return said_;
  }
  void signal(int number) const { ::kill(process_, number); }
  // The exit status, or minus the signal that ended it.
  int ended() {
    output_until();
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  Descriptor out_;
  pid_t process_ = -1;
  std::string said_;
};

class Commands : public ::testing::Test {
 protected:
  Command run(std::vector<std::string> arguments) const {
    arguments.push_back("--node-data");
    arguments.push_back(data_.here().node_data.string());
    return Command(std::move(arguments));
  }

  NodeData data_{plan_on_free_ports(3)};
};

TEST_F(Commands, PingShowsThePath) {
  const auto node_1 = data_.run(1);
  Command ping = run({"ping", "1", "--seconds", "0.1", "--count", "3"});
  EXPECT_EQ(ping.ended(), 0);
  EXPECT_THAT(ping.output_until(),
              AllOf(ContainsRegex("address +node_1 is at 127.0.0.1"), HasSubstr("asked by node_0"),
                    ContainsRegex("identity +node_1 of ravnest plan test"), HasSubstr("release 0.0.1"),
                    ContainsRegex("round trip +.* at least, .* median, .* at most \\(3 probes\\)"),
                    ContainsRegex("up +.* MB/s \\(.* Mbps\\)"), ContainsRegex("down +.* MB/s"),
                    ContainsRegex("clock +its clock agrees")));
}

TEST_F(Commands, PingInsecureAsksANodeWithoutTls) {
  tcp::Options options = data_.options(1);
  options.insecure = tcp::Insecure::kOnLoopback;
  const auto node_1 = NodeData::run(std::move(options));
  Command ping = run({"ping", "node_1", "--insecure", "--seconds", "0.1"});
  EXPECT_EQ(ping.ended(), 0);
  EXPECT_THAT(ping.output_until(), HasSubstr("there is no TLS"));
}

TEST_F(Commands, PingOfANodeThatIsNotThereSaysWhyAndFails) {
  Command ping = run({"ping", "node_2"});
  EXPECT_EQ(ping.ended(), 1);
  EXPECT_THAT(ping.output_until(), HasSubstr("nothing listens at 127.0.0.1"));
}

TEST_F(Commands, PingOfAnUnknownNodeListsTheNodes) {
  Command ping = run({"ping", "node_7"});
  EXPECT_EQ(ping.ended(), 1);
  EXPECT_THAT(ping.output_until(), HasSubstr("its nodes are node_0, node_1, node_2"));
}

TEST_F(Commands, PingEndsAtOnceWithCtrlC) {
  const auto node_1 = data_.run(1);
  Command ping = run({"ping", "node_1", "--seconds", "60"});
  EXPECT_THAT(ping.output_until("round trip"), HasSubstr("round trip"));
  ping.signal(SIGINT);
  EXPECT_EQ(ping.ended(), -SIGINT);
}

TEST_F(Commands, DoctorIsContentWithAPlanOnOneMachine) {
  Command doctor = run({"doctor"});
  EXPECT_EQ(doctor.ended(), 0) << doctor.output_until();
  EXPECT_THAT(doctor.output_until(), HasSubstr("19 checks: all is well"));
}

TEST_F(Commands, DoctorFailsWhereAPeerIsMissing) {
  Command doctor = run({"doctor", "--node", "node_1"});
  EXPECT_EQ(doctor.ended(), 1);
  EXPECT_THAT(doctor.output_until(), AllOf(HasSubstr("PROBLEM  node_1: cannot reach node_0: nothing listens at"),
                                           HasSubstr("7 checks: 2 problems\n")));
}

TEST_F(Commands, DoctorsOnTwoMachinesFindEachOther) {
  Command first = run({"doctor", "--node", "0", "--wait", "20"});
  first.output_until("is free");
  Command second = run({"doctor", "--node", "1", "--wait", "20"});
  second.output_until("is free");
  Command third = run({"doctor", "--node", "2", "--wait", "20"});
  for (Command* each : {&first, &second, &third}) EXPECT_EQ(each->ended(), 0) << each->output_until();
}

TEST_F(Commands, DoctorExaminesTheNodeThatWasUnpackedHere) {
  const auto node_0 = data_.run(0);
  const auto node_2 = data_.run(2);
  test::write(data_.here().node_data / plan::node_file("node_1"),
              plan::encode_node(data_.here().plan, 1, data_.here().node_data));
  const test::TemporaryFolder there;
  const std::string package = (there.path() / "node_1.ravnest").string();
  EXPECT_EQ(run({"pack", "1", "-o", package}).ended(), 0);
  const std::string node_data = (there.path() / "node_data").string();
  EXPECT_EQ(Command({"unpack", package, "--node-data", node_data}).ended(), 0);
  Command doctor({"doctor", "--node-data", node_data});
  EXPECT_EQ(doctor.ended(), 0) << doctor.output_until();
  EXPECT_THAT(doctor.output_until(), AllOf(HasSubstr("node_1: reaches node_0"), HasSubstr("7 checks: all is well")));
  Command ping({"ping", "2", "--seconds", "0.1", "--node-data", node_data});
  EXPECT_EQ(ping.ended(), 0);
  EXPECT_THAT(ping.output_until(), HasSubstr("asked by node_1"));
}

TEST_F(Commands, DoctorEndsAtOnceWithCtrlC) {
  Command doctor = run({"doctor", "--node", "0", "--wait", "3600"});
  doctor.output_until("is free");
  doctor.signal(SIGINT);
  EXPECT_EQ(doctor.ended(), -SIGINT);
}

TEST(CommandsAlone, DoctorWithoutAPlanSaysHowToMakeOne) {
  Command doctor({"doctor", "--node-data", "/no/such/folder"});
  EXPECT_EQ(doctor.ended(), 1);
  EXPECT_THAT(doctor.output_until(), HasSubstr("PROBLEM  there is no plan in /no/such/folder"));
}

TEST(CommandsAlone, SimulateTriesAProtocol) {
  Command simulate({"simulate", "--protocol", "pipeline", "--seeds", "300"});
  EXPECT_EQ(simulate.ended(), 0);
  EXPECT_THAT(simulate.output_until(), AllOf(HasSubstr("300 seeds in"), HasSubstr("every promise was kept; digest")));
}

TEST(CommandsAlone, SimulateTellsOneSeedEventByEvent) {
  Command simulate({"simulate", "--protocol", "pipeline", "--seed", "17", "--verbose"});
  EXPECT_EQ(simulate.ended(), 0);
  EXPECT_THAT(simulate.output_until(), AllOf(HasSubstr("seed 17\n"), HasSubstr("stage 0 begins the forward of pass 0"),
                                             HasSubstr("the root ends call 0"), HasSubstr("1 seeds in")));
}

TEST(CommandsAlone, SimulateShowsABrokenPromiseAndFails) {
  Command simulate({"simulate", "--protocol", "pipeline", "--sabotage", "answers-twice"});
  EXPECT_EQ(simulate.ended(), 1);
  EXPECT_THAT(simulate.output_until(), AllOf(HasSubstr("breaks a promise"), HasSubstr("2 stages, 1 passes"),
                                             HasSubstr("BROKEN: a message that fits is taken")));
}

TEST(CommandsAlone, SimulateEndsWithCtrlC) {
  Command simulate({"simulate", "--protocol", "pipeline", "--seeds", "1000000000", "--verbose"});
  simulate.output_until("seed 10\n");
  simulate.signal(SIGINT);
  EXPECT_EQ(simulate.ended(), 130);
  EXPECT_THAT(simulate.output_until(), HasSubstr("simulating was interrupted"));
}

TEST(CommandsAlone, TokenPrintsAnotherOneEachTime) {
  Command first({"token"});
  EXPECT_EQ(first.ended(), 0);
  const std::string token = first.output_until();
  EXPECT_THAT(token, ::testing::MatchesRegex("[a-z2-9]+\n"));
  EXPECT_EQ(token.size(), 53);
  EXPECT_NE(Command({"token"}).output_until(), token);
}

TEST(CommandsAlone, SimulateKnowsItsProtocols) {
  Command simulate({"simulate", "--protocol", "quantum"});
  EXPECT_NE(simulate.ended(), 0);
  EXPECT_THAT(simulate.output_until(), HasSubstr("pipeline"));
}

}  // namespace
}  // namespace ravnest::doctor
