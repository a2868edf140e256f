#include "ravnest/archive/testing/files.h"
#include "ravnest/data/formats.h"

namespace ravnest::data {
namespace {

using archive::testing::expect_failure;
using archive::testing::gzipped;
using archive::testing::numbers;
using archive::testing::slice;

using Shape = std::vector<std::int64_t>;

Result<Samples> decoded(std::string_view file) { return decode_digits(slice(file), "digits.csv"); }

std::string line(std::string_view pixel, std::string_view digit) {
  std::string written;
  for (int i = 0; i < 64; ++i) written += text(pixel, ",");
  return text(written, digit, "\n");
}

TEST(Digits, LinesBecomeImagesAndDigits) {
  const std::string file = line("16", "3") + line("0.5", "9");
  for (const std::string& each : {file, gzipped(file), file.substr(0, file.size() - 1) + "\r\n\n"}) {
    const Result<Samples> samples = decoded(each);
    ASSERT_TRUE(samples.ok()) << samples.status();
    EXPECT_EQ(samples->inputs.shape, (Shape{2, 1, 8, 8}));
    EXPECT_EQ(samples->targets.shape, Shape{2});
    std::vector<float> pixels(64, 16);
    pixels.resize(128, 0.5);
    EXPECT_EQ(numbers<float>(samples->inputs), pixels);
    EXPECT_EQ(numbers<std::int64_t>(samples->targets), (std::vector<std::int64_t>{3, 9}));
  }
}

TEST(Digits, WrongLinesAreNamed) {
  const std::string good = line("1", "1");
  expect_failure(decoded(good + line("1", "10")), Code::kCorrupt, "digits.csv, line 2: 10 is not a digit");
  expect_failure(decoded(line("1", "1.5")), Code::kCorrupt, "1.5 is not a digit");
  expect_failure(decoded(line("1", "1,1")), Code::kCorrupt, "line 1: more than the 64 numbers");
  expect_failure(decoded(good + "1,2,3\n"), Code::kCorrupt, "line 2: fewer than the 64 numbers");
  expect_failure(decoded(good + "\n" + good), Code::kCorrupt, "line 2: fewer");
  expect_failure(decoded(line("x", "1")), Code::kCorrupt, "line 1, number 1: \"x\" is not a number");
  expect_failure(decoded(line("nan", "1")), Code::kCorrupt, "\"nan\" is not a number");
  expect_failure(decoded(line("1", "")), Code::kCorrupt, "number 65: \"\" is not a number");
  expect_failure(decoded(""), Code::kCorrupt, "no lines");
}

TEST(Digits, TextWithoutEndIsRefusedBeforeItIsRead) {
  const std::string much = gzipped(std::string(std::size_t{40} << 20, '1'));
  expect_failure(decoded(much), Code::kUnsupported, "more than 32 MiB of text");
}

}  // namespace
}  // namespace ravnest::data
