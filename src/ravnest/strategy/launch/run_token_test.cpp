#include "ravnest/strategy/launch/run_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <set>
#include <string>

#include "ravnest/base/testing/folders.h"
#include "ravnest/strategy/launch/run_identity.h"

namespace ravnest::strategy {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

// As `openssl rand -hex 16` prints one.
constexpr const char* kHexadecimal = "6b0e8d0f5c3a2194e7a8b1c2d3f40516";

TEST(RunToken, IsALongTextOfPlainLetters) {
  const auto token = RunToken::create();
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->text().size(), 52);
  EXPECT_THAT(token->text(), MatchesRegex("[a-km-np-z2-9]+"));
  EXPECT_NE(token->text(), RunToken::create()->text());
}

TEST(RunToken, ComesBackFromItsText) {
  const auto token = RunToken::create();
  EXPECT_EQ(*RunToken::parse(token->text(), "RAVNEST_TOKEN"), *token);
  EXPECT_EQ(*RunToken::parse(" \t" + token->text() + "\r\n", "RAVNEST_TOKEN"), *token);
  EXPECT_TRUE(RunToken::parse(kHexadecimal, "RAVNEST_TOKEN").ok());
}

TEST(RunToken, LessThan128BitsAreRefusedWithWhatToDo) {
  const std::string one_less(kHexadecimal, 31);
  EXPECT_EQ(RunToken::parse(one_less, "RAVNEST_TOKEN").status(),
            invalid("the token of RAVNEST_TOKEN is too short: it has at most 124 bits, and needs 128; make one with "
                    "`ravnest token`, and give all ranks the same one"));
  EXPECT_TRUE(RunToken::parse("abcdefghijkmnpqrstuvwxyz23", "x").ok());
  EXPECT_THAT(RunToken::parse("abcdefghijkmnpqrstuvwxyz2", "x").status().message(), HasSubstr("125 bits"));
}

TEST(RunToken, WhatIsNoSecretIsRefused) {
  EXPECT_THAT(RunToken::parse(" \n", "RAVNEST_TOKEN").status().message(), HasSubstr("is empty"));
  EXPECT_THAT(RunToken::parse(std::string(64, 'a'), "RAVNEST_TOKEN").status().message(),
              HasSubstr("repeats a few characters"));
  EXPECT_THAT(RunToken::parse(std::string(kHexadecimal) + " x", "RAVNEST_TOKEN").status().message(),
              HasSubstr("characters that no token has"));
}

TEST(RunToken, IsReadFromAFile) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "token";
  std::ofstream(file) << kHexadecimal << '\n';
  EXPECT_EQ(RunToken::read(file)->text(), kHexadecimal);
  std::ofstream(file) << "short\n";
  EXPECT_THAT(RunToken::read(file).status().message(), AllOf(HasSubstr(file.string()), HasSubstr("too short")));
  EXPECT_THAT(RunToken::read(folder.path() / "none").status().message(), HasSubstr("the token cannot be read"));
}

TEST(RunToken, IsNotInWhatIsSaidOfIt) {
  EXPECT_THAT(RunToken::parse("secret-but-short", "RAVNEST_TOKEN").status().message(), Not(HasSubstr("secret")));
  EXPECT_THAT(RunToken::parse("secret with a blank in it", "RAVNEST_TOKEN").status().message(),
              Not(HasSubstr("secret")));
}

TEST(RunIdentity, RanksOfOneTokenAcceptEachOtherAndNoOthers) {
  const RunToken token = *RunToken::create();
  const auto first = run_identity(token, 0);
  const auto second = run_identity(token, 1);
  ASSERT_TRUE(first.ok() && second.ok());
  const auto now = std::chrono::system_clock::now();
  EXPECT_TRUE(identity::check_identity(second->identity, first->authority_certificate, "rank_1", now).ok());
  const auto stranger = run_identity(*RunToken::create(), 1);
  EXPECT_FALSE(identity::check_identity(stranger->identity, first->authority_certificate, "rank_1", now).ok());
}

TEST(RunIdentity, AnotherTokenOrRunIsAnotherPlan) {
  const RunToken token = *RunToken::create();
  const std::set<std::string> plans = {*run_plan(token, "a"), *run_plan(token, "b"),
                                       *run_plan(*RunToken::create(), "a"), *run_plan(std::nullopt, "a")};
  EXPECT_EQ(plans.size(), 4);
  EXPECT_EQ(*run_plan(token, "a"), *run_plan(token, "a"));
  EXPECT_THAT(*run_plan(token, "a"), MatchesRegex("run-[0-9a-f]+"));
}

}  // namespace
}  // namespace ravnest::strategy
