#include "ravnest/collective/group.h"

#include <gtest/gtest.h>

#include "ravnest/collective/testing/exchange.h"
#include "ravnest/collective/testing/group.h"

namespace ravnest::collective {
namespace {

using transport::in_seconds;
using transport::patiently;

class GroupOver : public testing::TestWithParam<Kind> {
 protected:
  static std::unique_ptr<Nodes> nodes(std::size_t members) { return GetParam().make(members); }
};

// One call of each kind, of one member of a group; the others make the same calls.
template <class T>
void make_all_calls(Group& group, std::size_t self, std::size_t members, std::size_t elements, std::uint64_t seed) {
  const auto given = whole_numbers<T>(static_cast<std::uint32_t>(members), elements, seed);
  const std::vector<T> sum = sum_of(given);
  std::vector<T> values = given[self];
  Status done = group.all_reduce(values, patiently());
  ASSERT_TRUE(done.ok()) << done;
  ASSERT_EQ(values, sum);

  values = given[self];
  done = group.reduce_scatter(values, patiently(), {.scale = 2});
  ASSERT_TRUE(done.ok()) << done;
  const Range own = group.own_segment(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    ASSERT_EQ(values[i], i >= own.first && i < own.end ? 2 * sum[i] : given[self][i]);
  }

  done = group.all_gather(values, patiently());
  ASSERT_TRUE(done.ok()) << done;
  for (std::size_t i = 0; i < elements; ++i) ASSERT_EQ(values[i], 2 * sum[i]);

  values = given[self];
  done = group.broadcast(values, seed % members, patiently());
  ASSERT_TRUE(done.ok()) << done;
  ASSERT_EQ(values, given[seed % members]);
}

TEST_P(GroupOver, CallsInARowGiveWhatPlainArithmeticGives) {
  for (const std::size_t members : {1, 2, 3, 5}) {
    const auto network = nodes(members);
    const auto endpoints = network->open_all();
    at_once(members, [&](std::size_t i) {
      Group group(*endpoints[i], network->names, i, {.chunk_bytes = 512});
      std::uint64_t seed = 0;
      for (const std::size_t elements : {1, 0, 7, 1009, 20'000}) {
        make_all_calls<float>(group, i, members, elements, ++seed);
        make_all_calls<double>(group, i, members, elements, ++seed);
      }
      EXPECT_EQ(group.ignored(), 0U);
      EXPECT_TRUE(endpoints[i]->close(patiently()).ok());
    });
  }
}

TEST_P(GroupOver, ValuesMayBeLargerThanTheQueues) {
  const transport::SessionOptions small = {.chunk_bytes = 16 << 10, .window_bytes = 32 << 10, .queue_bytes = 32 << 10};
  const auto network = nodes(3);
  const auto endpoints = network->open_all(small);
  at_once(3, [&](std::size_t i) {
    Group group(*endpoints[i], network->names, i, {.chunk_bytes = 8 << 10});
    make_all_calls<float>(group, i, 3, 300'000, 4);
  });
}

TEST_P(GroupOver, AMemberThatHasDoneItsPartMayLeaveAtOnce) {
  for (std::uint64_t round = 0; round < 5; ++round) {
    const auto network = nodes(4);
    auto endpoints = network->open_all();
    const auto given = whole_numbers<float>(4, 5000, round);
    at_once(4, [&](std::size_t i) {
      std::vector<float> values = given[i];
      Group group(*endpoints[i], network->names, i, {.chunk_bytes = 1024});
      const Status done = group.all_reduce(values, patiently());
      EXPECT_TRUE(done.ok()) << done;
      EXPECT_EQ(values, sum_of(given));
      EXPECT_TRUE(endpoints[i]->close(patiently()).ok());
    });
  }
}

TEST_P(GroupOver, AMemberMayLeaveWhileOthersAreACallBehind) {
  const auto network = nodes(3);
  auto endpoints = network->open_all();
  for (const auto& endpoint : endpoints) ASSERT_TRUE(has_all_up(*endpoint, 2));
  std::vector<std::unique_ptr<Group>> groups;
  for (std::size_t i = 0; i < 3; ++i) groups.push_back(std::make_unique<Group>(*endpoints[i], network->names, i));
  // The root has sent all and is gone before the last member begins.
  std::vector<float> values(100, 1);
  ASSERT_TRUE(groups[0]->broadcast(values, 0, patiently()).ok());
  ASSERT_TRUE(groups[0]->broadcast(values, 0, patiently()).ok());
  ASSERT_TRUE(endpoints[0]->close(patiently()).ok());
  ASSERT_TRUE(transport::next_state(*endpoints[2], "a", transport::PeerState::kLeft).ok());
  for (const std::size_t i : {1, 2, 1, 2}) {
    std::ranges::fill(values, 0.0F);
    const Status done = groups[i]->broadcast(values, 0, patiently());
    EXPECT_TRUE(done.ok()) << done;
    EXPECT_EQ(values, std::vector<float>(100, 1));
  }
}

TEST_P(GroupOver, AMemberThatLeavesEarlyEndsTheCallByItsName) {
  const auto network = nodes(2);
  auto endpoints = network->open_all();
  at_once(2, [&](std::size_t i) {
    std::vector<float> values(1000);
    if (i == 1) {
      ASSERT_TRUE(transport::next_state(*endpoints[1], "a", transport::PeerState::kUp).ok());
      EXPECT_TRUE(endpoints[1]->close(patiently()).ok());
      return;
    }
    Group group(*endpoints[0], network->names, 0);
    const Status done = group.all_reduce(values, patiently());
    EXPECT_EQ(done.code(), Code::kUnavailable);
    EXPECT_NE(done.message().find("all-reduce 0: b has left"), std::string::npos) << done;
    EXPECT_EQ(group.broadcast(values, 0, patiently()), done);
  });
}

TEST_P(GroupOver, AMemberThatDiesEndsTheCallByItsName) {
  const auto network = nodes(3);
  auto endpoints = network->open_all();
  for (const auto& endpoint : endpoints) ASSERT_TRUE(has_all_up(*endpoint, 2));
  Group first(*endpoints[0], network->names, 0);
  Group second(*endpoints[1], network->names, 1);
  at_once(3, [&](std::size_t i) {
    if (i == 2) {
      // The one that comes in its place knows nothing of the call, which is how the others notice.
      endpoints[2].reset();
      endpoints[2] = network->open(2, {});
      return;
    }
    std::vector<float> values(1000);
    const Status done = (i == 0 ? first : second).all_reduce(values, patiently());
    EXPECT_EQ(done.code(), Code::kUnavailable);
    EXPECT_NE(done.message().find("all-reduce 0: c was lost: "), std::string::npos) << done;
  });
}

TEST_P(GroupOver, ADeadlineEndsTheCall) {
  const auto network = nodes(2);
  auto endpoints = network->open_all();
  std::vector<float> values(1000);
  Group group(*endpoints[0], network->names, 0);
  const Status done = group.all_reduce(values, in_seconds(0.2));
  EXPECT_EQ(done.code(), Code::kDeadline);
  EXPECT_NE(done.message().find("only 0 of 2 chunks had come when the time was over; b is "), std::string::npos)
      << done;
  EXPECT_EQ(group.all_reduce(values, patiently()), done);
}

INSTANTIATE_TEST_SUITE_P(Transports, GroupOver, over_each_transport(), name_of_kind);

TEST(GroupOverASlowNetwork, MembersThatAllSendFirstDoNotWaitForEachOther) {
  InprocNodes network(3);
  // Nothing comes before each has filled the queue to the next one.
  for (const std::string& from : network.names) {
    for (const std::string& to : network.names) {
      if (from != to) network.network.set_conditions(from, to, {.delay = std::chrono::milliseconds(5)});
    }
  }
  const auto endpoints = network.open_all({.chunk_bytes = 16 << 10, .window_bytes = 32 << 10, .queue_bytes = 32 << 10});
  at_once(3, [&](std::size_t i) {
    Group group(*endpoints[i], network.names, i, {.chunk_bytes = 8 << 10});
    make_all_calls<float>(group, i, 3, 100'000, 4);
  });
}

TEST(GroupOverASlowNetwork, ACallFindsRoomWhenTheMessagesOfTheOneBeforeHaveArrived) {
  InprocNodes network(2);
  network.network.set_conditions("a", "b", {.delay = std::chrono::milliseconds(5)});
  const auto endpoints = network.open_all({.queue_bytes = 1});  // one message at a time
  at_once(2, [&](std::size_t i) {
    Group group(*endpoints[i], network.names, i, {.chunk_bytes = 8});
    for (int call = 0; call < 3; ++call) {
      std::vector<float> values(4, i == 0 ? 1.0F : 0.0F);
      const Status done = group.broadcast(values, 0, patiently());
      ASSERT_TRUE(done.ok()) << done;
      EXPECT_EQ(values, std::vector<float>(4, 1));
    }
  });
}

// A group of two, whose other member the test plays itself.
class GroupOfTwo : public testing::Test {
 protected:
  // What member "a" sends in an all-reduce of two values: its own second one, and the sum of the first ones.
  void send_round(std::uint64_t round, float own, float sum) {
    send("a", chunk_of(round, 1, 1, {own}));
    send("a", chunk_of(round, 0, 2, {sum}));
  }

  static wire::RingChunk chunk_of(std::uint64_t round, std::uint32_t segment, std::uint32_t hop,
                                  const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    wire::RingChunk chunk;
    chunk.round = round;
    chunk.segment = segment;
    chunk.hop = hop;
    chunk.tensor.shape = {static_cast<std::int64_t>(values.size())};
    chunk.tensor.data = slice_of({bytes.begin(), bytes.end()});
    return chunk;
  }

  void send(const std::string& from, wire::RingChunk chunk) {
    Status sent = nodes_.open_by_name(from).send("b", std::move(chunk), transport::Priority::kBulk);
    ASSERT_TRUE(sent.ok()) << sent;
  }

  struct ThreeNodes {
    InprocNodes nodes{3};
    std::vector<std::unique_ptr<transport::Endpoint>> endpoints = nodes.open_all();
    transport::Endpoint& open_by_name(const std::string& name) {
      return *endpoints[static_cast<std::size_t>(name[0] - 'a')];
    }
  };

  ThreeNodes nodes_;
  Group group_{nodes_.open_by_name("b"), {"a", "b"}, 1};
  std::vector<float> values_ = {10, 20};
};

TEST_F(GroupOfTwo, ChunksOfLaterCallsAreKeptForThem) {
  send_round(2, 7, 8);
  send_round(1, 5, 6);
  send_round(0, 3, 4);
  ASSERT_TRUE(group_.all_reduce(values_, patiently()).ok());
  EXPECT_EQ(values_, (std::vector<float>{4, 23}));
  ASSERT_TRUE(group_.all_reduce(values_, patiently()).ok());
  EXPECT_EQ(values_, (std::vector<float>{6, 28}));
  ASSERT_TRUE(group_.all_reduce(values_, patiently()).ok());
  EXPECT_EQ(values_, (std::vector<float>{8, 35}));
  EXPECT_EQ(group_.ignored(), 0U);
}

TEST_F(GroupOfTwo, LateDoubledAndForeignChunksAreIgnoredAndCounted) {
  send_round(0, 3, 4);
  ASSERT_TRUE(group_.all_reduce(values_, patiently()).ok());
  send_round(0, 100, 100);              // late
  send("c", chunk_of(1, 1, 1, {100}));  // from someone else
  send("a", chunk_of(1, 1, 1, {5}));
  send("a", chunk_of(1, 1, 1, {100}));  // doubled
  send("a", chunk_of(1, 0, 2, {6}));
  ASSERT_TRUE(group_.all_reduce(values_, patiently()).ok());
  EXPECT_EQ(values_, (std::vector<float>{6, 28}));
  // From "c" it may come after the call, since order holds between two.
  EXPECT_GE(group_.ignored(), 3U);
}

TEST_F(GroupOfTwo, AMemberWithOtherValuesEndsTheCallByItsName) {
  send("a", chunk_of(0, 1, 1, {1, 2, 3}));
  const Status done = group_.all_reduce(values_, patiently());
  EXPECT_EQ(done.code(), Code::kCorrupt);
  EXPECT_EQ(done.message(),
            "all-reduce 0: a: chunk 0 of segment 1 has 3 elements of float32 where 1 of float32 belong: the members do "
            "not exchange the same values");
}

TEST_F(GroupOfTwo, AClosedEndpointEndsTheCall) {
  ASSERT_TRUE(nodes_.open_by_name("b").close(in_seconds(1)).ok());
  EXPECT_EQ(group_.all_reduce(values_, patiently()).code(), Code::kCancelled);
}

TEST_F(GroupOfTwo, ARootThatIsNoMemberIsRefused) {
  EXPECT_EQ(group_.broadcast(values_, 2, patiently()).code(), Code::kInvalid);
  Group misplaced(nodes_.open_by_name("b"), {"a", "b"}, 0);
  EXPECT_EQ(misplaced.all_reduce(values_, patiently()).message(), "b is not member 0 of a, b");
}

TEST(GroupAfterARestart, AMemberThatHasComeBackBeforeTheGroupWasMadeCounts) {
  InprocNodes network(2);
  auto endpoints = network.open_all();
  ASSERT_TRUE(transport::next_state(*endpoints[0], "b", transport::PeerState::kUp).ok());
  endpoints[1].reset();
  endpoints[1] = network.open(1, {});
  ASSERT_TRUE(transport::next_state(*endpoints[0], "b", transport::PeerState::kLost).ok());
  ASSERT_TRUE(transport::next_state(*endpoints[0], "b", transport::PeerState::kUp).ok());
  at_once(2, [&](std::size_t i) {
    std::vector<float> values = {1, 2, 3};
    Group group(*endpoints[i], network.names, i);
    const Status done = group.all_reduce(values, patiently());
    EXPECT_TRUE(done.ok()) << done;
    EXPECT_EQ(values, (std::vector<float>{2, 4, 6}));
  });
}

}  // namespace
}  // namespace ravnest::collective
