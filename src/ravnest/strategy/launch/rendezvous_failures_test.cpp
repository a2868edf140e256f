// What keeps a run from starting: every rank says the same sentence, soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "ravnest/net/event_descriptor.h"
#include "ravnest/net/port_owner.h"
#include "ravnest/net/socket.h"
#include "ravnest/strategy/launch/testing/test_run.h"

namespace ravnest::strategy {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

constexpr double kSoon_s = 10;

class RendezvousFails : public testing::Test {
 protected:
  ~RendezvousFails() override { EXPECT_LT(seconds_between(began_, SystemClock().now()), kSoon_s); }

  const TimePoint began_ = SystemClock().now();
};

void expect_all(TestRun& run, const std::vector<int>& numbers, const Status& expected) {
  for (const int number : numbers) EXPECT_EQ(run.status(number), expected) << "process " << number;
}

TEST_F(RendezvousFails, WhereOneRankHasAnotherModel) {
  TestRun run(4);
  RendezvousOptions other = run.options(2);
  other.settings = {{"model", "c3d4"}};
  const std::vector<int> numbers = {run.start(0), run.start(1), run.start(other), run.start(3)};
  expect_all(run, numbers,
             invalid("rank 2 (127.0.0.1) was started with model c3d4, and rank 0 with a1b2: start all ranks with the "
                     "same"));
}

TEST_F(RendezvousFails, WhereOneRankIsOfAnotherRelease) {
  TestRun run(2);
  RendezvousOptions other = run.options(1);
  other.software = "0.9";
  expect_all(run, {run.start(other), run.start(0)},
             invalid("rank 1 (127.0.0.1) was started with release 0.9, and rank 0 with 1.0: start all ranks with the "
                     "same"));
}

TEST_F(RendezvousFails, WhereOneRankCannotBePartOfTheRun) {
  for (const int failed : {0, 2}) {
    TestRun run(3);
    std::vector<int> numbers;
    for (const int rank : {0, 1, 2}) {
      RendezvousOptions options = run.options(rank);
      if (rank == failed) options.settings.clear();  // it has not got that far
      numbers.push_back(rank == failed ? run.start_withdrawn(options, "failed: there is no model.pt2")
                                       : run.start(options));
    }
    expect_all(run, numbers, invalid("rank ", failed, " (127.0.0.1) failed: there is no model.pt2"));
    for (const int number : numbers) EXPECT_EQ(run.status(number).is_of_another(), number != failed);
  }
}

TEST_F(RendezvousFails, AndWhoCannotBePartOfTheRunSaysSoWhileItWaitsForTheLast) {
  Overheard said;
  TestRun run(3);
  RendezvousOptions host = run.options(0);
  host.log = said.logger();
  const int first = run.start(host);
  const int second = run.start_withdrawn(run.options(1), "failed: there is no model.pt2");
  EXPECT_TRUE(
      said.hears("rank 1 (127.0.0.1) failed: there is no model.pt2; the run ends with that once all ranks are "
                 "there to hear it"));
  EXPECT_TRUE(said.hears("waiting for rank 2"));
  expect_all(run, {first, second, run.start(2)}, invalid("rank 1 (127.0.0.1) failed: there is no model.pt2"));
}

TEST_F(RendezvousFails, AndWhereNobodyCanBeToldARankSaysBothThatItFailedAndWhyNobodyHearsOfIt) {
  TestRun run(2);
  RendezvousOptions options = run.options(1);
  options.place.master.host = "10.0.0.1";
  options.token.reset();
  EXPECT_THAT(run.status(run.start_withdrawn(options, "failed: there is no model.pt2")).message(),
              StartsWith("rank 1 failed: there is no model.pt2. The others do not hear of it: ranks that meet at "
                         "10.0.0.1 need a token"));
}

TEST_F(RendezvousFails, WhereWorldsDiffer) {
  TestRun run(3);
  RendezvousOptions other = run.options(1);
  other.place.world = 2;
  expect_all(run, {run.start(0), run.start(other), run.start(2)},
             invalid("rank 1 (127.0.0.1) was started for 2 ranks, and rank 0 for 3: start all ranks for the same "
                     "number"));
}

TEST_F(RendezvousFails, WhereARankIsBeyondTheWorld) {
  TestRun run(3);
  const int host = run.start(0);
  const int guest = run.start(1);
  RendezvousOptions beyond = run.options(5);
  beyond.place.world = 8;
  expect_all(run, {host, guest, run.start(beyond)},
             invalid("rank 5 (127.0.0.1) is beyond the 3 ranks that rank 0 was started for: start all ranks for the "
                     "same number"));
}

TEST_F(RendezvousFails, WhereTwoProcessesSayThatTheyAreOneRank) {
  TestRun run(3);
  const std::vector<int> numbers = {run.start(0), run.start(1), run.start(1)};
  const Status first = run.status(numbers.front());
  EXPECT_THAT(first.message(),
              MatchesRegex("two processes say that they are rank 1, at 127.0.0.1:[0-9]+ and at 127.0.0.1:[0-9]+: each "
                           "process needs a number of its own"));
  expect_all(run, numbers, first);
}

TEST_F(RendezvousFails, OnEveryRankWhenOneIsInterrupted) {
  for (const int ended : {0, 1}) {
    Overheard said;
    TestRun run(3);
    RendezvousOptions guest = run.options(1);
    guest.log = said.logger();
    const std::vector<int> numbers = {run.start(0), run.start(guest)};
    ASSERT_TRUE(said.hears("rank 1 is there, and waits until all ranks are"));
    run.interrupt(numbers[static_cast<std::size_t>(ended)]);
    EXPECT_EQ(run.status(numbers[static_cast<std::size_t>(ended)]), cancelled("interrupted"));
    EXPECT_EQ(run.status(numbers[static_cast<std::size_t>(1 - ended)]),
              invalid(ended == 0 ? "rank 0 (127.0.0.1)" : "rank 1", " ended before all ranks had met: interrupted"));
  }
}

TEST_F(RendezvousFails, WhereThePortOfRankZeroIsTakenWithTheProgramThatHasIt) {
  TestRun run(2);
  const auto listener = Listener::open("127.0.0.1", run.master().port);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::string owner = port_owner(run.master().port);
  EXPECT_NE(owner, "");
  Overheard said;
  RendezvousOptions guest = run.options(1);
  guest.log = said.logger();
  const int other = run.start(guest);
  EXPECT_EQ(run.status(run.start(0)), unavailable("MASTER_PORT ", run.master().port, " is taken by ", owner,
                                                  ": end what listens there, or choose another port for all ranks"));
  // That program says nothing to those who call, and may be about to end and make room: the others wait, and say so.
  EXPECT_TRUE(said.hears(text("waiting for rank 0 at ", run.master())));
  run.interrupt(other);
}

TEST_F(RendezvousFails, WhereAnotherProgramAnswersInsteadOfRankZero) {
  TestRun run(2);
  auto listener = Listener::open("127.0.0.1", run.master().port);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const EventDescriptor stop;
  std::thread program([&] {
    for (;;) {
      auto caller = listener->accept(Wait::of(std::chrono::seconds(60), stop.number()));
      if (!caller.ok()) return;
      (void)caller->send(as_byte_span("HTTP/1.1 400 Bad Request\r\n\r\n"), Wait::of(std::chrono::seconds(60)));
    }
  });
  EXPECT_EQ(run.status(run.start(1)),
            invalid("what answers at ", run.master(),
                    " is not rank 0 of this run: MASTER_PORT is taken by another program, or rank 0 has no token"));
  stop.raise();
  program.join();
}

TEST_F(RendezvousFails, WhereTheMastersNameIsUnknown) {
  TestRun run(2);
  std::vector<int> numbers;
  for (const int rank : {0, 1}) {
    RendezvousOptions options = run.options(rank);
    options.place.master.host = "no-such-host.invalid";
    numbers.push_back(run.start(options));
  }
  const Status first = run.status(numbers.front());
  EXPECT_EQ(first.code(), Code::kInvalid);
  EXPECT_THAT(first.message(), StartsWith("MASTER_ADDR: the name no-such-host.invalid cannot be resolved"));
  expect_all(run, numbers, first);
}

TEST_F(RendezvousFails, WhereTheMasterIsAnotherMachine) {
  TestRun run(2);
  RendezvousOptions options = run.options(0);
  options.place.master.host = "192.0.2.1";  // no machine has it (RFC 5737)
  EXPECT_THAT(run.status(run.start(options)).message(),
              AllOf(StartsWith("MASTER_ADDR 192.0.2.1 is not this machine, where rank 0 runs"),
                    HasSubstr("start rank 0 there, or set MASTER_ADDR to this machine's address")));
  // The others find nobody there.
  Overheard said;
  RendezvousOptions guest = run.options(1);
  guest.place.master.host = "192.0.2.1";
  guest.log = said.logger();
  const int other = run.start(guest);
  EXPECT_TRUE(said.hears(text("waiting for rank 0 at 192.0.2.1:", run.master().port)));
  run.interrupt(other);
}

TEST_F(RendezvousFails, WhoWaitsForTheAddressOfRankZeroSaysSo) {
  Overheard said;
  TestRun run(2);
  RendezvousOptions guest = run.options(1);
  guest.log = said.logger();
  guest.place.agent_store = true;
  guest.exchange = MasterExchange{.publish = {}, .find = [](const Poll& poll) -> Result<Address> {
                                    for (;;) {
                                      if (Status goes_on = poll(); !goes_on.ok()) return goes_on;
                                      std::this_thread::yield();
                                    }
                                  }};
  const int number = run.start(guest);
  EXPECT_TRUE(said.hears(text("waiting for rank 0 to tell its address by torchrun's store at ", run.master())));
  run.interrupt(number);
  EXPECT_EQ(run.status(number), cancelled("interrupted"));
}

TEST_F(RendezvousFails, WithoutATokenUnlessAllIsOnLoopback) {
  TestRun run(2);
  std::vector<int> numbers;
  for (const int rank : {0, 1}) {
    RendezvousOptions options = run.options(rank);
    options.place.master.host = "10.0.0.1";
    options.token.reset();
    numbers.push_back(run.start(options));
  }
  expect_all(run, numbers,
             invalid("ranks that meet at 10.0.0.1 need a token, or anyone there could be one of them: make one with "
                     "`ravnest token`, and give all ranks the same one, by RAVNEST_TOKEN or --token-file"));
}

TEST_F(RendezvousFails, WithAnotherTokenWhileTheOthersWaitOn) {
  Overheard said;
  TestRun run(3);
  RendezvousOptions host = run.options(0);
  host.log = said.logger();
  const int number = run.start(host);
  RendezvousOptions stranger = run.options(1);
  stranger.token = *RunToken::create();
  EXPECT_EQ(run.status(run.start(stranger)),
            invalid("rank 0 at ", run.master(),
                    " has another token than rank 1: give all ranks the same one, by RAVNEST_TOKEN or --token-file"));
  EXPECT_TRUE(said.hears("waiting for rank 1, rank 2; 127.0.0.1 was turned away: it does not have this run's token"));
  // Strangers can not end a run.
  const int first = run.start(1);
  const int second = run.start(2);
  for (const int each : {number, first, second}) EXPECT_TRUE(run.outcome(each).ok()) << run.status(each);
}

TEST_F(RendezvousFails, WhereAnEarlierRunHoldsThePort) {
  TestRun run(2);
  const int host = run.start(0);
  RendezvousOptions later = run.options(1);
  later.place.restarts = 1;
  EXPECT_EQ(
      run.status(run.start(later)),
      invalid("rank 0 here is of run \"a run\", and rank 1 at 127.0.0.1 of another one: end the run that holds the "
              "port, or give this one another MASTER_PORT"));
  run.interrupt(host);
}

TEST_F(RendezvousFails, WithoutARankAPortOrAWayToRankZero) {
  TestRun run(2);
  RendezvousOptions options = run.options(0);
  options.place.rank.reset();
  EXPECT_THAT(run.status(run.start(options)).message(), HasSubstr("is no rank"));
  options = run.options(2);
  EXPECT_EQ(run.status(run.start(options)), invalid("rank 2 is beyond the world of 2: ranks count from 0 to 1"));
  options = run.options(0);
  options.place.master.port = 0;
  EXPECT_THAT(run.status(run.start(options)).message(), HasSubstr("set MASTER_PORT"));
  options = run.options(0);
  options.place.agent_store = true;
  EXPECT_THAT(run.status(run.start(options)).message(), HasSubstr("torchrun's agent holds MASTER_PORT"));
}

}  // namespace
}  // namespace ravnest::strategy
