// Calls of a group that another thread ends, and members that are far ahead of others.
#include <gtest/gtest.h>

#include "ravnest/collective/group.h"
#include "ravnest/collective/testing/exchange.h"
#include "ravnest/collective/testing/group.h"

namespace ravnest::collective {
namespace {

using transport::patiently;

const Status kReason = cancelled("rank_1 has another model");

class GroupAbortOver : public testing::TestWithParam<Kind> {};

TEST_P(GroupAbortOver, AnAbortEndsACallThatWaitsForOthersWithItsReason) {
  const auto network = GetParam().make(2);
  const auto endpoints = network->open_all();
  Group group(*endpoints[0], network->names, 0);
  std::vector<float> values(1000);
  std::thread aborter([&] {
    // What comes from there says that the call is under way.
    EXPECT_TRUE(transport::next_message(*endpoints[1], patiently(), transport::Channel::kAveraging).ok());
    group.abort(kReason);
  });
  EXPECT_EQ(group.all_reduce(values, TimePoint::max()), kReason);
  aborter.join();
  group.abort(cancelled("later"));
  EXPECT_EQ(group.broadcast(values, 0, patiently()), kReason);
}

TEST_P(GroupAbortOver, AnAbortEndsACallThatWaitsForRoom) {
  const auto network = GetParam().make(2);
  const auto endpoint = network->open(0, {.queue_bytes = 1});  // one message, and nobody takes it
  Group group(*endpoint, network->names, 0, {.chunk_bytes = 400});
  std::vector<float> values(1000);
  std::thread aborter([&] { group.abort(kReason); });
  EXPECT_EQ(group.broadcast(values, 0, TimePoint::max()), kReason);
  aborter.join();
}

TEST_P(GroupAbortOver, AnAbortBetweenCallsEndsTheNextOne) {
  const auto network = GetParam().make(1);
  const auto endpoint = network->open(0);
  Group group(*endpoint, network->names, 0);
  std::vector<float> values(10);
  EXPECT_TRUE(group.all_reduce(values, patiently()).ok());
  group.abort(kReason);
  EXPECT_EQ(group.all_reduce(values, patiently()), kReason);
}

TEST_P(GroupAbortOver, ARootMayBeAheadByManyBroadcasts) {
  constexpr int kCalls = 6;
  const auto network = GetParam().make(3);
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints(3);
  endpoints[0] = network->open(0);
  endpoints[1] = network->open(1, {.queue_bytes = 1});  // which is full at once, since nobody takes it
  std::vector<std::thread> members;
  const auto begin = [&](std::size_t i) {
    members.emplace_back([&, i] {
      Group group(*endpoints[i], network->names, i);
      for (int call = 0; call < kCalls; ++call) {
        std::vector<float> values(100, i == 0 ? static_cast<float>(call) : -1.0F);
        const Status done = group.broadcast(values, 0, patiently());
        ASSERT_TRUE(done.ok()) << done;
        ASSERT_EQ(values, std::vector<float>(100, static_cast<float>(call)));
      }
      EXPECT_EQ(group.ignored(), 0U);
    });
  };
  begin(1);
  begin(0);
  members[1].join();
  // The root's last message has come when its endpoint has nothing left to send.
  EXPECT_TRUE(endpoints[0]->close(patiently()).ok());
  endpoints[2] = network->open(2);
  begin(2);
  members[0].join();
  members[2].join();
}

INSTANTIATE_TEST_SUITE_P(Transports, GroupAbortOver, over_each_transport(), name_of_kind);

}  // namespace
}  // namespace ravnest::collective
