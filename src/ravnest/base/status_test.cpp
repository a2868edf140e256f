#include "ravnest/base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ravnest {
namespace {

TEST(Status, DefaultIsOkWithoutMessage) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.message(), "");
}

TEST(Status, FailureKeepsCodeAndMessage) {
  const Status status(Code::kCorrupt, "no end record");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.message(), "no end record");
}

TEST(Status, MessageOfAnOkStatusIsDropped) { EXPECT_EQ(Status(Code::kOk, "fine"), Status()); }

TEST(Status, ContextStandsInFrontOfTheMessageAndKeepsTheCode) {
  const Status status = not_found("no such entry").with_context("models/model.json").with_context("model.pt2");
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.message(), "model.pt2: models/model.json: no such entry");
}

TEST(Status, AFailureOfAnotherStaysOneWithContext) {
  const Status own = unavailable("disk full");
  EXPECT_FALSE(own.is_of_another());
  const Status told = own.of_another();
  EXPECT_TRUE(told.is_of_another());
  EXPECT_TRUE(told.with_context("node_1").is_of_another());
  EXPECT_EQ(told, own) << "the same failure, and the same sentence";
  EXPECT_EQ(Status().of_another(), Status());
}

TEST(Status, ContextLeavesAnOkStatusAlone) { EXPECT_EQ(Status().with_context("model.pt2"), Status()); }

TEST(Status, FactoriesConcatenateTheirPartsUnderTheirOwnCode) {
  EXPECT_EQ(invalid("a", 1), Status(Code::kInvalid, "a1"));
  EXPECT_EQ(not_found("b", 2), Status(Code::kNotFound, "b2"));
  EXPECT_EQ(corrupt("c", 3), Status(Code::kCorrupt, "c3"));
  EXPECT_EQ(unsupported("d", 4), Status(Code::kUnsupported, "d4"));
  EXPECT_EQ(unavailable("e", 5), Status(Code::kUnavailable, "e5"));
  EXPECT_EQ(cancelled("f", 6), Status(Code::kCancelled, "f6"));
  EXPECT_EQ(deadline("g", 7), Status(Code::kDeadline, "g7"));
  EXPECT_EQ(internal("h", 8), Status(Code::kInternal, "h8"));
}

TEST(Status, PrintsItsCodeAsAWordAndItsMessage) {
  EXPECT_EQ(text(unavailable("disk full")), "unavailable: disk full");
  EXPECT_EQ(text(Status()), "ok");
}

TEST(Result, HoldsAValueOrAReason) {
  const Result<int> good = 4;
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 4);
  EXPECT_EQ(good.status(), Status());

  const Result<int> bad = invalid("not a number");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status(), invalid("not a number"));
}

TEST(Result, ValueCanBeChangedInPlaceAndMovedOut) {
  Result<std::unique_ptr<std::string>> result = std::make_unique<std::string>("abc");
  ASSERT_TRUE(result.ok());
  result.value()->append("d");
  EXPECT_EQ((*result)->size(), 4U);
  const std::unique_ptr<std::string> moved = std::move(result).value();
  EXPECT_EQ(*moved, "abcd");
}

TEST(Result, ArrowReachesTheMembersOfTheValue) {
  Result<std::vector<int>> result = std::vector<int>{1, 2};
  result->push_back(3);
  EXPECT_EQ(std::as_const(result)->size(), 3U);
}

TEST(Result, OkStatusWithoutAValueBecomesAnInternalError) {
  const Result<int> result = Status();
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kInternal);
}

TEST(ResultDeathTest, UsingTheValueOfAFailedResultEndsTheProcessWithTheReason) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Result<int> result = corrupt("entry 3 lies about its size");
  EXPECT_DEATH(static_cast<void>(result.value()), "corrupt: entry 3 lies about its size");
}

}  // namespace
}  // namespace ravnest
