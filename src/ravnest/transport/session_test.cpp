#include "ravnest/transport/session.h"

#include <gmock/gmock.h>

#include <map>

#include "ravnest/transport/testing/session.h"

namespace ravnest::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kUrgent = 0;
constexpr std::size_t kNormal = 2;

SessionOptions small_options() {
  SessionOptions options;
  options.chunk_bytes = 100;
  options.window_bytes = 5000;
  options.queue_bytes = 20'000;
  options.max_message_bytes = 100'000;
  return options;
}

class SmallSession : public SessionTest {
 protected:
  SmallSession() : SessionTest(small_options()) {}
};

TEST_F(SmallSession, MessagesOfALaneArriveInOrderAndComplete) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(put(a, kNormal, filled(i, 300 * i), [](const Status&) {}).ok());
  exchange(a, b);
  EXPECT_THAT(arrived(b), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(a.all_acknowledged());
  const auto finished = a.take_finished();
  ASSERT_EQ(finished.size(), 5);
  for (const Finished& each : finished) EXPECT_TRUE(each.status.ok());
}

TEST_F(SmallSession, NothingIsSaidWithoutAConnection) {
  Session a = make(1);
  ASSERT_TRUE(put(a, kNormal, filled(0, 10)).ok());
  EXPECT_FALSE(a.next_frame(now_).has_value());
}

// -- connections that break

TEST_F(SmallSession, AMessageGoesOnInTheMiddleOnTheNextConnection) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  ASSERT_TRUE(put(a, kNormal, filled(7, 1000)).ok());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(hand_over(*next_chunk(a), b, now_).ok());
  (void)next_chunk(a);  // is lost
  disconnect(a, b);
  connect(a, b);
  const auto chunk = next_chunk(a);
  ASSERT_TRUE(chunk.has_value());
  EXPECT_EQ(chunk->chunk.offset, 400);
  ASSERT_TRUE(hand_over(*chunk, b, now_).ok());
  exchange(a, b);
  const auto messages = b.take_arrived();
  ASSERT_EQ(messages.size(), 1);
  EXPECT_TRUE(is_intact(messages[0].message));
}

TEST_F(SmallSession, AMessageWhoseAcknowledgementWasLostIsNotSentAgain) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  ASSERT_TRUE(put(a, kNormal, filled(1, 10), [](const Status&) {}).ok());
  while (const auto chunk = next_chunk(a)) ASSERT_TRUE(hand_over(*chunk, b, now_).ok());
  EXPECT_THAT(arrived(b), ElementsAre(1));
  disconnect(a, b);
  connect(a, b);
  EXPECT_EQ(a.take_finished().size(), 1);
  exchange(a, b);
  EXPECT_THAT(arrived(b), IsEmpty());
}

TEST_F(SmallSession, WhatTheApplicationTookBetweenTheHellosIsStillReported) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  for (std::uint64_t i = 0; i < 12; ++i) ASSERT_TRUE(put(a, kNormal, filled(i, 1000)).ok());
  exchange(a, b);
  const auto first = b.take_arrived();
  ASSERT_LT(first.size(), 12);  // the window is full
  disconnect(a, b);
  const wire::Hello from_a = hello_of(a);
  const wire::Hello from_b = hello_of(b);
  for (const Arrived& each : first) b.consumed(each.lane, each.weight, now_);
  ASSERT_TRUE(a.link(from_b, now_).ok());
  ASSERT_TRUE(b.link(from_a, now_).ok());
  exchange(a, b);
  EXPECT_FALSE(b.take_arrived().empty());
}

TEST_F(SmallSession, AbandoningEndsEveryOpenMessageOnce) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  int failed = 0;
  for (std::size_t lane = 0; lane < wire::kLanes; ++lane) {
    ASSERT_TRUE(put(a, lane, filled(lane, 500), [&](const Status& status) { failed += status.ok() ? 0 : 1; }).ok());
  }
  a.abandon(unavailable("gone"));
  for (const Finished& each : a.take_finished()) each.done(each.status);
  EXPECT_EQ(failed, 4);
  a.abandon(unavailable("gone"));
  EXPECT_TRUE(a.take_finished().empty());
  EXPECT_FALSE(next_chunk(a).has_value());
}

// -- the numbers of sessions

TEST_F(SmallSession, AtTheFirstMeetingNeitherKnowsTheOther) {
  Session a = make(1);
  Session b = make(2);
  EXPECT_FALSE(a.ever_linked());
  EXPECT_EQ(hello_of(a).peer_session, 0);
  connect(a, b);
  EXPECT_TRUE(a.ever_linked());
  EXPECT_EQ(hello_of(a).peer_session, 2);
  EXPECT_EQ(hello_of(b).peer_session, 1);
}

TEST_F(SmallSession, APeerThatNeverGotOurHelloGoesOn) {
  Session a = make(1);
  Session b = make(2);
  ASSERT_TRUE(put(a, kNormal, filled(3, 10)).ok());
  ASSERT_TRUE(a.link(hello_of(b), now_).ok());
  EXPECT_TRUE(next_chunk(a).has_value());  // into a connection that breaks before b heard anything
  a.unlink(now_);
  EXPECT_EQ(hello_of(b).peer_session, 0);
  connect(a, b);
  exchange(a, b);
  EXPECT_THAT(arrived(b), ElementsAre(3));
}

TEST_F(SmallSession, ARestartedPeerDoesNotContinue) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  disconnect(a, b);
  Session again = make(3);
  EXPECT_FALSE(a.continues(hello_of(again)));
  EXPECT_TRUE(again.continues(hello_of(a)));
  EXPECT_TRUE(a.continues(hello_of(b)));
}

// What the old one received is no concern of the new one's.
TEST_F(SmallSession, APeerThatKnowsAnEarlierSessionHasReceivedNothing) {
  Session before = make(1);
  Session b = make(2);
  connect(before, b);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(put(before, kNormal, filled(i, 10)).ok());
  exchange(before, b);
  ASSERT_EQ(arrived(b).size(), 3);
  ASSERT_EQ(hello_of(b).received[kNormal].message, 3);
  // Here this end gave up, and the peer did not notice.
  Session a = make(9);
  for (std::uint64_t i = 10; i < 13; ++i) ASSERT_TRUE(put(a, kNormal, filled(i, 10)).ok());
  ASSERT_TRUE(a.continues(hello_of(b)));
  EXPECT_FALSE(b.continues(hello_of(a)));
  ASSERT_TRUE(a.link(hello_of(b), now_).ok());
  Session fresh = make(2);  // what the peer makes of it, under the number that it has said
  ASSERT_TRUE(fresh.link(hello_of(a), now_).ok());
  exchange(a, fresh);
  EXPECT_THAT(arrived(fresh), ElementsAre(10, 11, 12));
}

// -- windows and weights

TEST_F(SmallSession, AWindowOfMessagesIsSentAndNoMore) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  for (std::uint64_t i = 0; i < 12; ++i) ASSERT_TRUE(put(a, kNormal, filled(i, 1000)).ok());
  exchange(a, b);
  const auto first = b.take_arrived();
  // Each weighs its bytes and 512 more; the one that passes the window is the last.
  const std::uint64_t weight = first.at(0).weight;
  EXPECT_GT(weight, 1512);
  EXPECT_EQ(first.size(), (options_.window_bytes + weight - 1) / weight);
  EXPECT_EQ(b.next_frame(now_), std::nullopt);
  // One taken, one comes.
  b.consumed(kNormal, weight, now_);
  exchange(a, b);
  EXPECT_EQ(b.take_arrived().size(), 1);
}

TEST_F(SmallSession, AFullLaneDoesNotHoldUpOthers) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  for (std::uint64_t i = 0; i < 12; ++i) ASSERT_TRUE(put(a, kUrgent, filled(i, 1000)).ok());
  exchange(a, b);
  (void)b.take_arrived();
  ASSERT_TRUE(put(a, kNormal, filled(100, 1000)).ok());
  exchange(a, b);
  EXPECT_THAT(arrived(b), ElementsAre(100));
}

TEST_F(SmallSession, EmptyMessagesAreNotForFree) {
  Session a = make(1);
  std::uint64_t accepted = 0;
  while (a.has_room(kNormal)) ASSERT_TRUE(put(a, kNormal, numbered(accepted++)).ok());
  EXPECT_LT(accepted, options_.queue_bytes / 512 + 1);
}

TEST_F(SmallSession, APeerThatTakesNothingIsSlowAndNotSilent) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  for (std::uint64_t i = 0; i < 12; ++i) ASSERT_TRUE(put(a, kNormal, filled(i, 1000)).ok());
  for (int i = 0; i < 50; ++i) {
    exchange(a, b, milliseconds(100));
    a.heard(now_);
    b.heard(now_);
    (void)a.look(now_);
  }
  const auto health = a.look(now_);
  EXPECT_TRUE(health.slow);
  EXPECT_FALSE(health.silent);
  EXPECT_THAT(health.reason, HasSubstr("has taken no messages"));
}

// -- turns of lanes

TEST_F(SessionTest, EveryLaneGetsATurnHoweverBusyTheOthersAre) {
  options_.chunk_bytes = 10;
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  for (std::size_t lane = 0; lane < wire::kLanes; ++lane) {
    ASSERT_TRUE(put(a, lane, filled(lane, 100'000)).ok());
  }
  std::map<std::size_t, int> turns;
  for (int i = 0; i < 1000; ++i) ++turns[next_chunk(a)->lane];
  EXPECT_GT(turns[0], 750);
  for (std::size_t lane = 1; lane < wire::kLanes; ++lane) EXPECT_GT(turns[lane], 40) << lane;
}

TEST_F(SessionTest, AnUrgentMessageGoesBeforeTheRestOfALongOne) {
  options_.chunk_bytes = 1000;
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  ASSERT_TRUE(put(a, kNormal, filled(0, 100'000)).ok());
  ASSERT_EQ(next_chunk(a)->lane, kNormal);
  ASSERT_TRUE(put(a, kUrgent, filled(1, 10)).ok());
  EXPECT_EQ(next_chunk(a)->lane, kUrgent);
  EXPECT_EQ(next_chunk(a)->lane, kNormal);
}

// -- time

TEST_F(SmallSession, APeerOutOfReachIsLostAfterAWhile) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  disconnect(a, b);
  const TimePoint start = now_;
  while (!a.look(now_).lost && now_ < start + seconds(60)) now_ += milliseconds(100);
  EXPECT_GE(now_ - start, Liveness::kLeastPatience);
  EXPECT_LE(now_ - start, Liveness::kMostPatience);
}

TEST_F(SmallSession, APeerNeverSeenIsNotLost) {
  Session a = make(1);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(a.look(now_ += milliseconds(100)).lost);
}

TEST_F(SmallSession, WhileThisProcessStoodStillNobodyWasOutOfReach) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  (void)a.look(now_);
  a.unlink(now_);
  now_ += seconds(100);
  EXPECT_FALSE(a.look(now_).lost);
  EXPECT_FALSE(a.look(now_ += seconds(1)).lost);
}

TEST_F(SmallSession, RoundTripsAreMeasuredAndMadeUpOnesIgnored) {
  Session a = make(1);
  Session b = make(2);
  connect(a, b);
  const auto beat = a.next_frame(now_);
  ASSERT_TRUE(std::holds_alternative<wire::Heartbeat>(*beat));
  now_ += milliseconds(30);
  b.beat(std::get<wire::Heartbeat>(*beat), now_);
  now_ += milliseconds(400);
  wire::Heartbeat answer = std::get<wire::Heartbeat>(*b.next_frame(now_ += milliseconds(500)));
  now_ += milliseconds(20);
  a.beat(answer, now_);
  PeerStatistics statistics;
  a.add_to(statistics);
  EXPECT_NEAR(statistics.round_trip_s, 0.05, 1e-6);
  for (const std::int64_t ns : {INT64_MIN, INT64_MAX, std::int64_t{-1}}) {
    for (const std::int64_t held : {INT64_MIN, INT64_MAX, std::int64_t{-1}}) a.beat({ns, ns, held}, now_);
  }
  PeerStatistics after;
  a.add_to(after);
  EXPECT_GE(after.round_trip_s, 0);
  EXPECT_LT(after.round_trip_s, 3600);
}

// -- what only this program can do wrong

using SmallSessionDeathTest = SmallSession;

TEST_F(SmallSessionDeathTest, WhoBreaksItsRulesEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Session a = make(1);
  EXPECT_DEATH(a.consumed(kNormal, 1, now_), "defect of ravnest: lane 2: of 0 arrived, 0 were taken, and now 1");
  EXPECT_DEATH((void)a.chunk_received(kNormal, 1, now_), "message 0 of 0 bytes came up to 0, and now 1");
  EXPECT_DEATH(a.heard(now_ - seconds(1)), "time went back by 1000000000 ns");
  while (a.has_room(kNormal)) ASSERT_TRUE(put(a, kNormal, filled(0, 1000)).ok());
  EXPECT_DEATH((void)put(a, kNormal, filled(0, 1000)), "lane 2 has [0-9]+ bytes queued");
}

}  // namespace
}  // namespace ravnest::transport
