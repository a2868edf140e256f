#include "ravnest/strategy/launch/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "ravnest/strategy/launch/testing/test_run.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::strategy {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;
using transport::PeerState;

// Every rank can talk to every other one, under the rank's name.
void expect_connected(TestRun& run, const std::vector<int>& numbers) {
  std::vector<Met*> ranks;
  for (const int number : numbers) {
    auto& met = run.outcome(number);
    ASSERT_TRUE(met.ok()) << met.status();
    ranks.push_back(&*met);
  }
  for (const Met* from : ranks) {
    EXPECT_EQ(from->endpoint->name(), rank_name(from->rank));
    EXPECT_THAT(from->hosts, Each("127.0.0.1"));
    for (const Met* to : ranks) {
      if (from == to) continue;
      EXPECT_EQ(from->endpoint->statistics(rank_name(to->rank))->state, PeerState::kUp);
      const auto number = static_cast<std::uint64_t>(100 * from->rank + to->rank);
      ASSERT_TRUE(
          from->endpoint->send(rank_name(to->rank), transport::numbered(number), transport::Priority::kNormal).ok());
    }
  }
  for (const Met* to : ranks) {
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      const auto event = transport::next_message(*to->endpoint);
      ASSERT_TRUE(event.ok()) << event.status();
      const int from = *rank_of(event->peer);
      EXPECT_EQ(transport::number_of(std::get<wire::Message>(event->what)),
                static_cast<std::uint64_t>(100 * from + to->rank));
    }
  }
}

class RendezvousOf : public testing::TestWithParam<int> {};

TEST_P(RendezvousOf, RanksThatStartInOrderMeet) {
  TestRun run(GetParam());
  std::vector<int> numbers;
  for (int rank = 0; rank < GetParam(); ++rank) {
    numbers.push_back(run.start(rank));
    if (rank == 0) run.wait_until_it_waits(numbers.back());
  }
  expect_connected(run, numbers);
}

TEST_P(RendezvousOf, RanksMeetWhenRankZeroIsTheLast) {
  TestRun run(GetParam());
  std::vector<int> numbers;
  for (int rank = GetParam() - 1; rank >= 0; --rank) {
    if (rank == 0) run.wait_until_it_waits(numbers.front());
    numbers.push_back(run.start(rank));
  }
  expect_connected(run, numbers);
}

INSTANTIATE_TEST_SUITE_P(Worlds, RendezvousOf, testing::Values(2, 3, 4, 8), testing::PrintToStringParamName());

TEST(Rendezvous, OneRankAloneHasMetWithoutAPortOrAToken) {
  TestRun run(1);
  RendezvousOptions options = run.options(0);
  options.place.master.port = 0;
  options.token.reset();
  const auto& met = run.outcome(run.start(options));
  ASSERT_TRUE(met.ok()) << met.status();
  EXPECT_EQ(met->endpoint->name(), "rank_0");
}

TEST(Rendezvous, WithoutATokenRanksMeetOverLoopback) {
  TestRun run(2);
  std::vector<int> numbers;
  for (const int rank : {0, 1}) {
    RendezvousOptions options = run.options(rank);
    options.token.reset();
    numbers.push_back(run.start(options));
  }
  expect_connected(run, numbers);
}

TEST(Rendezvous, ARankThatDiesBeforeAllAreThereMayComeAgain) {
  TestRun run(3);
  const int host = run.start(0);
  struct Killed : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  int polls = 0;
  // Ends without a word, as if it were killed.
  EXPECT_THROW((void)meet(run.options(1),
                          [&]() -> Status {
                            if (++polls > 10) throw Killed("it is");
                            return {};
                          }),
               Killed);
  expect_connected(run, {host, run.start(1), run.start(2)});
  // Communicators, which receive by a channel of their own, hear nothing of the one that died.
  transport::Endpoint& endpoint = *run.outcome(host)->endpoint;
  for (;;) {
    const auto event = endpoint.receive(TimePoint(), transport::Channel::kAveraging);
    if (!event.ok()) break;
    EXPECT_EQ(std::get<transport::PeerChange>(event->what).state, PeerState::kUp) << event->peer;
  }
}

TEST(Rendezvous, RanksListenWithinThePortsThatTheyAreGiven) {
  TestRun run(3);
  const std::uint16_t first = free_port();
  RendezvousOptions options = run.options(1);
  options.ports = {first, first};
  const int a = run.start(run.options(0));
  const int b = run.start(options);
  const int c = run.start(2);
  expect_connected(run, {a, b, c});
  options.ports = {first, first};
  options.place.rank = 2;
  const Status taken = run.status(run.start(options));
  EXPECT_EQ(taken, unavailable("all ports from ", first, " to ", first,
                               " are taken on the machine of rank 2: give more of them by --ports"));
}

TEST(Rendezvous, RankZeroMayBeFoundByAnExchange) {
  TestRun run(2);
  std::promise<Address> published;
  std::shared_future<Address> found = published.get_future().share();
  const auto options = [&](int rank) {
    RendezvousOptions each = run.options(rank);
    each.place.agent_store = true;
    each.exchange = MasterExchange{.publish =
                                       [&](const Address& own) {
                                         published.set_value(own);
                                         return Status();
                                       },
                                   .find = [found](const Poll&) -> Result<Address> { return found.get(); }};
    return each;
  };
  const int guest = run.start(options(1));
  const int host = run.start(options(0));
  expect_connected(run, {host, guest});
  // Loopback means another machine to each: so the master's own name stays.
  EXPECT_EQ(found.get().host, "");
  EXPECT_NE(found.get().port, run.master().port);
}

TEST(Rendezvous, SaysForWhomItWaits) {
  for (const int rank : {0, 2}) {
    TestRun run(3);
    Overheard said;
    RendezvousOptions options = run.options(rank);
    options.log = said.logger();
    const TimePoint until = SystemClock().now() + std::chrono::milliseconds(1500);
    const auto met =
        meet(options, [&]() -> Status { return SystemClock().now() < until ? Status() : cancelled("interrupted"); });
    EXPECT_EQ(met.status(), cancelled("interrupted"));
    EXPECT_THAT(said.text(), HasSubstr(rank == 0 ? "waiting for rank 1, rank 2"
                                                 : text("waiting for rank 0 at ", run.master(), " (")));
    EXPECT_THAT(said.text(), Not(HasSubstr(run.token().text())));
  }
}

TEST(Ports, AreTwoNumbersWithADash) {
  EXPECT_EQ(parse_ports("40000-40100")->first, 40000);
  EXPECT_EQ(parse_ports("40000-40100")->last, 40100);
  for (const char* bad : {"", "-", "40000", "40000-", "40100-40000", "0-1", "1-65536", "a-b", "1-2-3", "-1-5"})
    EXPECT_EQ(parse_ports(bad).status().code(), Code::kInvalid) << bad;
}

TEST(RankNames, ComeBackAsNumbers) {
  EXPECT_EQ(rank_name(12), "rank_12");
  EXPECT_EQ(rank_of("rank_12"), 12);
  for (const char* bad : {"", "rank_", "rank_-1", "rank_01", "rank_1x", "node_1", "rank_99999999999"})
    EXPECT_EQ(rank_of(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace ravnest::strategy
