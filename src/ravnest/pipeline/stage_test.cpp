#include "ravnest/pipeline/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::pipeline {
namespace {

TEST(Schedule, NamesAreReadBack) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync, Schedule::kGpipe}) {
    EXPECT_EQ(*parse_schedule(name(schedule)), schedule);
  }
  EXPECT_THAT(parse_schedule("1f1b").status().message(), testing::HasSubstr("async, sync and gpipe"));
}

}  // namespace
}  // namespace ravnest::pipeline
