#include "ravnest/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace ravnest {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct CountsItsPrintings {
  int* count;
  friend std::ostream& operator<<(std::ostream& out, const CountsItsPrintings& self) {
    ++*self.count;
    return out << "printed";
  }
};

TEST(Logger, LineHasTimeLevelNameAndMessage) {
  std::ostringstream out;
  Logger("node_2", Level::kInfo, out).warning("round ", 14, " without node_3");
  EXPECT_THAT(out.str(), MatchesRegex("....-..-.. ..:..:..\\.... warning node_2: round 14 without node_3\n"));
}

TEST(Logger, LinesBelowTheThresholdAreNeitherWrittenNorPutTogether) {
  std::ostringstream out;
  int printings = 0;
  const Logger log("n", Level::kWarning, out);
  log.debug(CountsItsPrintings{&printings});
  log.info(CountsItsPrintings{&printings});
  EXPECT_EQ(out.str(), "");
  EXPECT_EQ(printings, 0);
  log.warning(CountsItsPrintings{&printings});
  log.error("and ", "this");
  EXPECT_EQ(printings, 1);
  EXPECT_THAT(out.str(), HasSubstr("warning n: printed\n"));
  EXPECT_THAT(out.str(), HasSubstr("error n: and this\n"));
}

TEST(Logger, OffWritesNothingAtAll) {
  std::ostringstream out;
  const Logger log("n", Level::kOff, out);
  log.error("unheard");
  log.log(Level::kOff, "unheard");
  EXPECT_EQ(out.str(), "");
  EXPECT_FALSE(log.enabled(Level::kError));
}

TEST(Logger, BracesInAMessageAreNotAFormat) {
  std::ostringstream out;
  Logger("n", Level::kInfo, out).info("{} {0} %s {unclosed");
  EXPECT_THAT(out.str(), HasSubstr("n: {} {0} %s {unclosed\n"));
}

TEST(Logger, MessageStaysOneLine) {
  std::ostringstream out;
  Logger("n", Level::kInfo, out).info("first\nsecond\rthird\x1b[31m naïve");
  EXPECT_THAT(out.str(), HasSubstr("n: first; second?third?[31m naïve\n"));
}

TEST(Logger, AnotherNameSharesTheTarget) {
  std::ostringstream out;
  const Logger log("run", Level::kInfo, out);
  log.named("stage_1").info("one");
  log.info("two");
  EXPECT_THAT(out.str(), HasSubstr("stage_1: one\n"));
  EXPECT_THAT(out.str(), HasSubstr("run: two\n"));
}

TEST(Logger, DefaultWritesToStandardError) {
  ::testing::internal::CaptureStderr();
  Logger().info("hello");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("info ravnest: hello\n"));
}

TEST(Logger, LinesOfSeveralThreadsAreNotTorn) {
  std::ostringstream out;
  const Logger log("n", Level::kInfo, out);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log, t] {
      for (int i = 0; i < 200; ++i) log.info("<", t, " says ", i, ">");
    });
  }
  for (auto& thread : threads) thread.join();
  std::istringstream lines(out.str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, MatchesRegex(".* info n: <[0-3] says [0-9]+>"));
  }
  EXPECT_EQ(count, 800);
}

}  // namespace
}  // namespace ravnest
