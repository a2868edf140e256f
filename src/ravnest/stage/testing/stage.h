// Stages for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "ravnest/stage/stage.h"

namespace ravnest::stage::testing {

inline constexpr Offer kEvaluate{
    .kind = wire::PassKind::kValidate, .batch = 0, .part = 0, .parts = 1, .weight = 1, .update = false};

// A stage of a chain.
inline StageOptions chain(int index, int count, Schedule schedule = Schedule::kAsync, int window = 0) {
  StageOptions options;
  options.index = index;
  options.count = count;
  options.schedule = schedule;
  options.window = window;
  if (index > 0) options.train.producers = {index - 1};
  if (index + 1 < count) options.train.consumers = {index + 1};
  options.evaluate = options.train;
  return options;
}

inline wire::PassHead head(std::uint64_t pass, bool update = true, std::uint64_t updates = 0) {
  return {.pass = pass, .step = pass, .batch = pass, .update = update, .updates = updates};
}
inline wire::PassHead evaluation(std::uint64_t pass) { return {.pass = pass, .kind = wire::PassKind::kPredict}; }

// Part `part` of `parts` of a batch, which ends with an update if `update`.
inline Offer part_of(std::uint64_t batch, std::uint32_t part, std::uint32_t parts, bool update = true) {
  return {.kind = wire::PassKind::kTrain,
          .batch = batch,
          .part = part,
          .parts = parts,
          .weight = 1,
          .update = update && part + 1 == parts};
}

inline std::string word(const Work& work) {
  switch (work.kind) {
    case WorkKind::kForward: return text("F", work.head.pass);
    case WorkKind::kBackward: return text("B", work.head.pass);
    case WorkKind::kAnswer: return text("A", work.head.pass);
    case WorkKind::kUpdate: return text("U", work.number);
    case WorkKind::kAverage: return text("M", work.number);
    case WorkKind::kAdopt: return text("V", work.number, "/", work.from);
  }
  return "?";
}

// Does all there is to do, and says what that was: F0 and B0 are forward and backward of pass 0, A0 its answer, U0 the
// first update, M0 the same of an averaging pass, V1/0 the adoption of stage 0's values after one update.
inline std::vector<std::string> do_all(Stage& stage) {
  std::vector<std::string> words;
  while (const auto work = stage.next()) {
    stage.done(*work);
    words.push_back(word(*work));
  }
  return words;
}

inline void offer(Stage& root, int passes) {
  for (int pass = 0; pass < passes; ++pass) root.offer({.batch = static_cast<std::uint64_t>(pass)});
}

// The message does not fit, says why, and changes nothing.
inline void expect_refused(Stage& stage, const std::function<Status(Stage&)>& message, const std::string& words) {
  const Stage before = stage;
  const Status status = message(stage);
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), ::testing::HasSubstr(words));
  EXPECT_TRUE(stage == before);
}

inline StageOptions keeper(Schedule schedule) {
  StageOptions options = chain(1, 3, schedule, 4);
  options.tied_users = {2};
  return options;
}

inline StageOptions user(Schedule schedule) {
  StageOptions options = chain(2, 3, schedule, 4);
  options.tied_keepers = {1};
  return options;
}

}  // namespace ravnest::stage::testing
