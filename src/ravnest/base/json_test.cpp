#include "ravnest/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ravnest {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
}

TEST(ParseJson, ParsesAValue) {
  const auto value = parse_json(R"({"name": "é", "sizes": [1, -2, 18446744073709551615], "f": 1e3})", "model.json");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->at("name"), "é");
  EXPECT_EQ(value->at("sizes")[2].get<std::uint64_t>(), 18446744073709551615U);
  EXPECT_EQ(value->at("f"), 1000.0);
}

TEST(ParseJson, ErrorNamesWhatWasParsedAndTheBytePosition) {
  const auto value = parse_json(R"({"a": 1,, "b": 2})", "pool.json");
  EXPECT_EQ(value.status().code(), Code::kCorrupt);
  EXPECT_THAT(value.status().message(), StartsWith("pool.json: not valid JSON at byte 9: syntax error"));
}

TEST(ParseJson, TruncatedEmptyAndTrailingTextAreErrors) {
  for (const char* text : {"", "   ", "{", "[1,", "\"abc", "{\"a\":", "tru", "1 2", "{} x"}) {
    EXPECT_EQ(parse_json(text, "x").status().code(), Code::kCorrupt) << text;
  }
}

TEST(ParseJson, NumberOutOfRangeIsAnErrorWithItsPosition) {
  const auto value = parse_json("[1e999]", "x");
  EXPECT_EQ(value.status().code(), Code::kCorrupt);
  EXPECT_THAT(value.status().message(), StartsWith("x: not valid JSON at byte 6: number overflow"));
}

TEST(ParseJson, BrokenUtf8IsAnError) {
  EXPECT_THAT(parse_json("\"\xff\"", "x").status().message(), HasSubstr("UTF-8"));
}

TEST(ParseJson, NestingUpToTheLimitIsParsedAndOneMoreIsRefused) {
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth), "x").ok());
  EXPECT_EQ(parse_json(nested(kMaxJsonDepth + 1), "x").status(),
            corrupt("x: JSON is nested deeper than 200 levels at byte 200"));
}

TEST(ParseJson, VeryDeepNestingIsAnErrorRatherThanAStackOverflow) {
  EXPECT_FALSE(parse_json(nested(5'000'000), "x").ok());
  EXPECT_FALSE(parse_json(std::string(5'000'000, '['), "x").ok());
}

TEST(ParseJson, BracketsInStringsAndManySiblingsDoNotCountAsDepth) {
  EXPECT_TRUE(parse_json("\"" + std::string(500, '[') + "\\\"" + std::string(500, '{') + "\"", "x").ok());
  std::string siblings = "[[]";
  for (int i = 0; i < 1000; ++i) siblings += ",[{}]";
  EXPECT_TRUE(parse_json(siblings + "]", "x").ok());
}

TEST(ParseJson, KeyThatStandsTwiceIsAnErrorWhereItIsForbidden) {
  const auto value = parse_json_without_repeats(R"({"b": {"a": 1}, "a": {"b": 2}})", "x");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->dump(), R"({"a":{"b":2},"b":{"a":1}})");
  EXPECT_EQ(parse_json_without_repeats(R"([{"a": {"b": 1, "c": 2, "b": 3}}])", "x").status(),
            corrupt("x: the key \"b\" stands twice in one object"));
  EXPECT_FALSE(parse_json_without_repeats("{", "x").ok());
}

TEST(ParseJson, LongTokensAreNotRepeatedWholeInTheError) {
  const auto value = parse_json("[\"" + std::string(100'000, 'a') + "\n\"]", "x");
  EXPECT_FALSE(value.ok());
  EXPECT_LT(value.status().message().size(), 400U);
}

}  // namespace
}  // namespace ravnest
