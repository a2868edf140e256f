#include "ravnest/train/rank/float32.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <utility>

namespace ravnest::train {
namespace {

// Of matrices, and of convolutions.
std::pair<bool, bool> tf32() {
  return {at::globalContext().allowTF32CuBLAS(), at::globalContext().allowTF32CuDNN(at::Float32Op::CONV)};
}

TEST(Float32, IsInForceUntilItsEnd) {
  const std::pair<bool, bool> before = tf32();
  EXPECT_TRUE(before.second) << "torch's default, which exact has to turn off";
  {
    const Float32Mode mode(Float32::kExact);
    EXPECT_EQ(tf32(), std::pair(false, false));
  }
  EXPECT_EQ(tf32(), before);
  {
    const Float32Mode mode(Float32::kTf32);
    EXPECT_EQ(tf32(), std::pair(true, true));
  }
  EXPECT_EQ(tf32(), before);
}

TEST(Float32, UnknownNamesAreToldTheChoices) {
  EXPECT_EQ(*parse_float32("tf32"), Float32::kTf32);
  EXPECT_EQ(parse_float32("fast").status().message(), "there is no float32 \"fast\"; there are exact and tf32");
}

}  // namespace
}  // namespace ravnest::train
