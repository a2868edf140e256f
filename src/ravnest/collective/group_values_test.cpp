// What a group exchanges: integers, bytes, and floats that are compressed on the way.
#include <gtest/gtest.h>

#include <cmath>

#include "ravnest/collective/group.h"
#include "ravnest/collective/testing/exchange.h"
#include "ravnest/collective/testing/group.h"

namespace ravnest::collective {
namespace {

using transport::patiently;

class GroupValuesOver : public testing::TestWithParam<Kind> {
 protected:
  static void with_groups(std::size_t members, const std::function<void(Group&, std::size_t)>& what) {
    const auto network = GetParam().make(members);
    const auto endpoints = network->open_all();
    at_once(members, [&](std::size_t i) {
      Group group(*endpoints[i], network->names, i, {.chunk_bytes = 512});
      what(group, i);
      EXPECT_EQ(group.ignored(), 0U);
      EXPECT_TRUE(endpoints[i]->close(patiently()).ok());
    });
  }
};

TEST_P(GroupValuesOver, IntegersAreAddedUpExactly) {
  constexpr std::int64_t kLarge = (std::int64_t{1} << 60) + 1;  // no double has it
  for (const std::size_t members : {1, 2, 4}) {
    with_groups(members, [&](Group& group, std::size_t i) {
      std::vector<std::int64_t> values = {kLarge, -kLarge, static_cast<std::int64_t>(i), 1, 2, 3, 4};
      const Status done = group.all_reduce(values, patiently());
      ASSERT_TRUE(done.ok()) << done;
      const auto n = static_cast<std::int64_t>(members);
      EXPECT_EQ(values, (std::vector<std::int64_t>{n * kLarge, -n * kLarge, n * (n - 1) / 2, n, 2 * n, 3 * n, 4 * n}));
    });
  }
}

TEST_P(GroupValuesOver, IntegersThatAreTooLargeWrapAround) {
  with_groups(2, [](Group& group, std::size_t i) {
    std::vector<std::int64_t> values = {i == 0 ? std::numeric_limits<std::int64_t>::max() : 1};
    ASSERT_TRUE(group.all_reduce(values, patiently()).ok());
    EXPECT_EQ(values[0], std::numeric_limits<std::int64_t>::min());
  });
}

std::vector<std::byte> some_bytes(std::size_t count, std::size_t seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + seed * 31);
  return bytes;
}

TEST_P(GroupValuesOver, BytesTravelAsTheyAre) {
  for (const std::size_t members : {1, 2, 3}) {
    with_groups(members, [&](Group& group, std::size_t i) {
      for (const std::size_t count : {0, 1, 6, 3001, 9000}) {
        std::vector<std::byte> gathered(count);
        std::vector<std::byte> expected(count);
        for (std::size_t member = 0; member < members; ++member) {
          const auto given = some_bytes(count, member);
          const Range segment =
              segment_range(count, static_cast<std::uint32_t>(members), static_cast<std::uint32_t>(member));
          for (std::size_t at = segment.first; at < segment.end; ++at) {
            expected[at] = given[at];
            if (member == i) gathered[at] = given[at];
          }
        }
        Status done = group.all_gather(std::span(gathered), patiently());
        ASSERT_TRUE(done.ok()) << done;
        EXPECT_EQ(gathered, expected);

        std::vector<std::byte> sent = some_bytes(count, i);
        done = group.broadcast(std::span(sent), members - 1, patiently());
        ASSERT_TRUE(done.ok()) << done;
        EXPECT_EQ(sent, some_bytes(count, members - 1));
      }
      EXPECT_EQ(group.own_segment(members * 10), (Range{i * 10, i * 10 + 10}));
    });
  }
}

TEST_P(GroupValuesOver, WhatCompressionLosesIsPartOfTheNextSum) {
  constexpr std::size_t kMembers = 3;
  constexpr std::size_t kElements = 1000;
  constexpr int kCalls = 50;
  const auto given = normal_numbers(kMembers, kElements);
  const auto exact = sum_of(given);
  std::vector<std::vector<float>> last(kMembers);
  with_groups(kMembers, [&](Group& group, std::size_t i) {
    codec::ErrorFeedback residual(kElements);
    const ReduceOptions options = {.codec = *codec::parse_codec("int4"), .residual = &residual};
    std::vector<double> total(kElements);
    for (int call = 0; call < kCalls; ++call) {
      last[i] = given[i];
      const Status done = group.all_reduce(last[i], patiently(), options);
      ASSERT_TRUE(done.ok()) << done;
      for (std::size_t at = 0; at < kElements; ++at) total[at] += last[i][at];
    }
    // One call is off by up to 1/14 of the largest of a block per hop; the mean of many by a fraction of that.
    for (std::size_t at = 0; at < kElements; ++at) ASSERT_NEAR(total[at] / kCalls, exact[at], 0.05) << at;
  });
  EXPECT_FALSE(same_bits(last[0], exact));
  for (std::size_t i = 1; i < kMembers; ++i) EXPECT_TRUE(same_bits(last[i], last[0]));
}

TEST_P(GroupValuesOver, ACodecThatCanNotBeIsRefused) {
  const auto network = GetParam().make(2);
  const auto endpoint = network->open(0);
  Group group(*endpoint, network->names, 0);
  std::vector<float> values(10);
  const Status done = group.all_reduce(values, patiently(), {.codec = {.kind = codec::CodecKind::kTopK, .keep = 2}});
  EXPECT_EQ(done.code(), Code::kInvalid) << done;
}

INSTANTIATE_TEST_SUITE_P(Transports, GroupValuesOver, over_each_transport(), name_of_kind);

}  // namespace
}  // namespace ravnest::collective
