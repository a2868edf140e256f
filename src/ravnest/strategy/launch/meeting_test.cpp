#include "ravnest/strategy/launch/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ravnest::strategy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kMaster = "10.0.0.1";

wire::Join join(std::uint32_t world, std::uint16_t port, const std::string& model = "a1b2") {
  return {.world = world, .host = "", .port = port, .settings = {{"model", model}, {"release", "1.0"}}};
}

Meeting host_of(std::uint32_t world) { return {0, join(world, 29500), kMaster}; }

// What it tells the rank, of the actions.
template <class T>
std::vector<T> told(const MeetingActions& actions, int rank) {
  std::vector<T> found;
  for (const MeetingAction& action : actions) {
    const auto* tell = std::get_if<Tell>(&action);
    if (tell == nullptr || tell->rank != rank) continue;
    if constexpr (std::is_same_v<T, wire::Failed>) {
      if (const auto* failed = std::get_if<wire::Failed>(&tell->message)) found.push_back(*failed);
    } else if (const auto* meeting = std::get_if<wire::Meeting>(&tell->message)) {
      if (const auto* it = std::get_if<T>(meeting)) found.push_back(*it);
    }
  }
  return found;
}

std::string sentence_to(const MeetingActions& actions, int rank) {
  const auto failed = told<wire::Failed>(actions, rank);
  return failed.size() == 1 ? failed.front().reason : "";
}

TEST(Meeting, RankZeroTellsTheAddressesOnceAllAreThere) {
  auto host = host_of(3);
  EXPECT_THAT(host.missing(), ElementsAre(1, 2));
  host.on_up(2, "10.0.0.2");
  EXPECT_THAT(host.on_message(2, join(3, 40002)), IsEmpty());
  EXPECT_THAT(host.missing(), ElementsAre(1));
  host.on_up(1, "127.0.0.1");
  const MeetingActions actions = host.on_message(1, join(3, 40001));
  // Rank 1 came by loopback, so others find it where they find rank 0.
  const wire::Table table{{{"", 29500}, {"", 40001}, {"10.0.0.2", 40002}}};
  EXPECT_THAT(told<wire::Table>(actions, 1), ElementsAre(table));
  EXPECT_THAT(told<wire::Table>(actions, 2), ElementsAre(table));
  EXPECT_FALSE(host.met());
}

TEST(Meeting, ARankThatIsNoneOfItsOwnWorldIsNotHeard) {
  auto host = host_of(2);
  host.on_up(7, "10.0.0.7");
  EXPECT_THAT(host.on_message(7, join(2, 40007)), IsEmpty());
  EXPECT_THAT(host.missing(), ElementsAre(1));
  host.on_up(1, "10.0.0.1");
  EXPECT_THAT(host.on_message(1, join(2, 40001)), Not(IsEmpty()));
  EXPECT_THAT(host.on_message(7, wire::Connected()), IsEmpty());
  EXPECT_FALSE(host.met());
}

TEST(MeetingDeathTest, AMeetingThatMeetsItselfIsADefect) {
  EXPECT_DEATH(Meeting(2, join(2, 40001), kMaster), "rank 2 of 2");
  EXPECT_DEATH(host_of(2).on_up(0, "10.0.0.1"), "rank 0 meets itself");
}

TEST(Meeting, ARankThatSaysWhereItIsReachedIsBelieved) {
  auto host = host_of(2);
  host.on_up(1, "192.168.0.9");
  wire::Join declared = join(2, 40001);
  declared.host = "gpu7.example.org";
  const auto table = told<wire::Table>(host.on_message(1, declared), 1);
  EXPECT_THAT(table, ElementsAre(wire::Table{{{"", 29500}, {"gpu7.example.org", 40001}}}));
}

TEST(Meeting, TheRunBeginsWhenEveryoneIsConnectedToEveryone) {
  auto host = host_of(3);
  for (const int rank : {1, 2}) {
    host.on_up(rank, "10.0.0.2");
    host.on_message(rank, join(3, 40000));
  }
  EXPECT_THAT(host.on_message(2, wire::Connected()), IsEmpty());
  EXPECT_THAT(host.missing(), ElementsAre(1));
  const MeetingActions actions = host.on_message(1, wire::Connected());
  EXPECT_TRUE(host.met());
  EXPECT_THAT(told<wire::AllConnected>(actions, 1).size() + told<wire::AllConnected>(actions, 2).size(), 2);
}

TEST(Meeting, OthersJoinReachEveryoneAndSaySo) {
  Meeting rank(1, join(3, 40001), kMaster);
  EXPECT_THAT(rank.missing(), ElementsAre(0));
  EXPECT_THAT(told<wire::Join>(rank.on_up(0, kMaster), 0), ElementsAre(join(3, 40001)));
  const MeetingActions actions = rank.on_message(0, wire::Table{{{"", 29500}, {"", 40001}, {"", 40002}}});
  ASSERT_EQ(actions.size(), 1);
  EXPECT_EQ(std::get<Reach>(actions[0]).rank, 2);
  EXPECT_EQ(std::get<Reach>(actions[0]).address, (Address{kMaster, 40002}));
  EXPECT_THAT(rank.missing(), ElementsAre(2));
  EXPECT_EQ(told<wire::Connected>(rank.on_up(2, "10.0.0.2"), 0).size(), 1);
  EXPECT_FALSE(rank.met());
  rank.on_message(0, wire::AllConnected());
  EXPECT_TRUE(rank.met());
}

TEST(Meeting, OneRankAloneHasMet) { EXPECT_TRUE(host_of(1).met()); }

TEST(Meeting, WhoIsStartedWithSomethingElseEndsTheMeetingForAll) {
  auto host = host_of(3);
  host.on_up(1, "10.0.0.2");
  host.on_message(1, join(3, 40001));
  host.on_up(2, "10.0.0.3");
  const MeetingActions actions = host.on_message(2, join(3, 40002, "c3d4"));
  const std::string sentence =
      "rank 2 (10.0.0.3) was started with model c3d4, and rank 0 with a1b2: start all ranks with the same";
  EXPECT_EQ(sentence_to(actions, 1), sentence);
  EXPECT_EQ(sentence_to(actions, 2), sentence);
  EXPECT_EQ(host.failure()->reason, sentence);
}

TEST(Meeting, ASettingThatOnlyOneOfThemHasIsNamed) {
  for (const bool here : {true, false}) {
    wire::Join with = join(2, 1);
    with.settings.push_back({"strategy", "ddp"});
    Meeting host(0, here ? with : join(2, 1), kMaster);
    host.on_up(1, "10.0.0.2");
    EXPECT_EQ(
        sentence_to(host.on_message(1, here ? join(2, 1) : with), 1),
        text("rank 1 (10.0.0.2) was started with strategy ",
             here ? "none, and rank 0 with ddp" : "ddp, and rank 0 with none", ": start all ranks with the same"));
  }
}

TEST(Meeting, WorldsThatDifferEndTheMeeting) {
  auto host = host_of(4);
  host.on_up(1, "10.0.0.2");
  EXPECT_EQ(sentence_to(host.on_message(1, join(8, 1)), 1),
            "rank 1 (10.0.0.2) was started for 8 ranks, and rank 0 for 4: start all ranks for the same number");
}

wire::Join withdrawal(std::uint32_t world, const std::string& why) {
  return {.world = world, .host = "", .port = 40000, .settings = {{kWithdraws, why}, {"release", "1.0"}}};
}

TEST(Meeting, WhoCannotBePartOfTheRunEndsItOnceAllHaveCome) {
  auto host = host_of(4);
  host.on_up(2, "10.0.0.3");
  EXPECT_THAT(host.on_message(2, withdrawal(4, "failed: there is no model.pt2")), IsEmpty());
  EXPECT_EQ(host.withdrawal(), "rank 2 (10.0.0.3) failed: there is no model.pt2");
  host.on_up(3, "10.0.0.4");
  EXPECT_THAT(host.on_message(3, withdrawal(4, "failed too")), IsEmpty());
  host.on_up(1, "10.0.0.2");
  const MeetingActions actions = host.on_message(1, join(4, 40001, "of another model"));
  for (const int rank : {1, 2, 3})
    EXPECT_EQ(sentence_to(actions, rank), "rank 2 (10.0.0.3) failed: there is no model.pt2");
  EXPECT_EQ(host.failure()->stage, 2U);
}

TEST(Meeting, RankZeroThatCannotBePartOfTheRunWaitsForAllToTellThem) {
  Meeting host(0, withdrawal(3, "failed: there is no model.pt2"), kMaster);
  host.on_up(1, "10.0.0.2");
  EXPECT_THAT(host.on_message(1, join(3, 40001)), IsEmpty());
  host.on_up(2, "10.0.0.3");
  const MeetingActions actions = host.on_message(2, join(3, 40002));
  for (const int rank : {1, 2})
    EXPECT_EQ(sentence_to(actions, rank), "rank 0 (10.0.0.1) failed: there is no model.pt2");
}

TEST(Meeting, AnotherProcessMayComeInThePlaceOfOneThatCannot) {
  auto host = host_of(3);
  host.on_up(1, "10.0.0.2");
  host.on_message(1, withdrawal(3, "failed"));
  host.on_gone(1);
  EXPECT_FALSE(host.withdrawal());
  for (const int rank : {1, 2}) {
    host.on_up(rank, "10.0.0.2");
    host.on_message(rank, join(3, 40000));
  }
  EXPECT_TRUE(host.knows_all());
  EXPECT_FALSE(host.failure());
}

TEST(Meeting, WhoComesAfterTheFailureHearsOfIt) {
  auto host = host_of(3);
  host.on_up(1, "10.0.0.2");
  host.fail("rank 0 is out of luck");
  EXPECT_THAT(host.untold(), ElementsAre(2));
  EXPECT_EQ(sentence_to(host.on_up(2, "10.0.0.3"), 2), "rank 0 is out of luck");
  EXPECT_THAT(host.untold(), IsEmpty());
}

TEST(Meeting, ARankThatGoesAwayBeforeTheTableMayComeAgain) {
  auto host = host_of(2);
  Meeting rank(1, join(2, 40001), kMaster);
  host.on_up(1, "10.0.0.2");
  rank.on_up(0, kMaster);
  EXPECT_THAT(rank.on_gone(0), IsEmpty());
  EXPECT_EQ(told<wire::Join>(rank.on_up(0, kMaster), 0).size(), 1);
  auto third = host_of(3);
  third.on_up(1, "10.0.0.2");
  third.on_message(1, join(3, 40001));
  EXPECT_THAT(third.on_gone(1), IsEmpty());
  EXPECT_THAT(third.missing(), ElementsAre(1, 2));
  EXPECT_FALSE(third.failure());
}

TEST(Meeting, TheTableWaitsForARankWhoseConnectionIsBroken) {
  auto host = host_of(3);
  host.on_up(1, "10.0.0.2");
  host.on_message(1, join(3, 40001));
  host.on_down(1);
  EXPECT_THAT(host.missing(), ElementsAre(1, 2));
  host.on_up(2, "10.0.0.3");
  EXPECT_THAT(host.on_message(2, join(3, 40002)), IsEmpty());
  EXPECT_EQ(told<wire::Table>(host.on_up(1, "10.0.0.2"), 1).size(), 1);
}

TEST(Meeting, ARankThatIsLostAfterTheTableEndsTheMeeting) {
  auto host = host_of(3);
  for (const int rank : {1, 2}) {
    host.on_up(rank, text("10.0.0.", rank + 1));
    host.on_message(rank, join(3, 40000));
  }
  const MeetingActions actions = host.on_gone(2);
  EXPECT_EQ(sentence_to(actions, 1), "rank 2 (10.0.0.3) was lost before all ranks had met");
  EXPECT_TRUE(host.failure()->lost);
  // Rank 0 itself can't be spoken for.
  Meeting rank(1, join(2, 40001), kMaster);
  rank.on_up(0, kMaster);
  rank.on_message(0, wire::Table{{{"", 29500}, {"", 40001}}});
  rank.on_gone(0);
  EXPECT_EQ(rank.failure()->reason, "rank 0 (10.0.0.1) was lost before all ranks had met");
}

TEST(Meeting, ARankThatEndsTellsRankZeroWhichTellsAll) {
  auto host = host_of(3);
  Meeting rank(1, join(3, 40001), kMaster);
  rank.on_up(0, kMaster);
  host.on_up(1, "10.0.0.2");
  host.on_up(2, "10.0.0.3");
  const auto failed = told<wire::Failed>(rank.fail("rank 1 ended before all ranks had met: interrupted"), 0);
  ASSERT_EQ(failed.size(), 1);
  EXPECT_EQ(sentence_to(host.on_failed(1, failed.front()), 2), "rank 1 ended before all ranks had met: interrupted");
}

TEST(Meeting, WhatOnlyRankZeroMaySayIsIgnoredFromOthers) {
  Meeting rank(1, join(3, 40001), kMaster);
  rank.on_up(0, kMaster);
  EXPECT_THAT(rank.on_message(2, wire::Table{{{"", 1}, {"", 2}, {"", 3}}}), IsEmpty());
  EXPECT_FALSE(rank.knows_all());
  rank.on_message(2, wire::AllConnected());
  rank.on_failed(2, {.stage = 2, .lost = false, .reason = "it is not mine to say"});
  EXPECT_FALSE(rank.met());
  EXPECT_FALSE(rank.failure());
}

TEST(Meeting, ATableOfAnotherSizeIsNoTable) {
  Meeting rank(1, join(3, 40001), kMaster);
  rank.on_up(0, kMaster);
  EXPECT_THAT(rank.on_message(0, wire::Table{{{"", 1}, {"", 2}}}), IsEmpty());
  EXPECT_FALSE(rank.knows_all());
}

TEST(Meeting, TextOfAnotherRankIsMadeFitForATerminal) {
  auto host = host_of(2);
  host.on_up(1, "10.0.0.2");
  const MeetingActions actions = host.on_message(1, join(2, 1, "\x1b[2J"));
  EXPECT_THAT(sentence_to(actions, 1), testing::HasSubstr("model ?[2J, and"));
}

}  // namespace
}  // namespace ravnest::strategy
