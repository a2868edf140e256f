#include "ravnest/archive/testing/files.h"
#include "ravnest/data/formats.h"

namespace ravnest::data {
namespace {

using archive::testing::expect_failure;
using archive::testing::gzipped;
using archive::testing::numbers;
using archive::testing::slice;

using Shape = std::vector<std::int64_t>;

Result<archive::Array> decoded(std::string_view file) { return decode_idx(slice(file), "train-images"); }

// Two images of 2 x 3.
const std::string kImages = std::string("\0\0\x08\x03\0\0\0\2\0\0\0\2\0\0\0\3", 16) + "abcdefABCDEF";

TEST(Idx, ImagesAreReadPlainAndCompressed) {
  for (const std::string& file :
       {kImages, gzipped(kImages), gzipped(kImages.substr(0, 5)) + gzipped(kImages.substr(5))}) {
    const Result<archive::Array> array = decoded(file);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->dtype, DType::kUInt8);
    EXPECT_EQ(array->shape, (Shape{2, 2, 3}));
    EXPECT_EQ(as_string_view(array->bytes.bytes), "abcdefABCDEF");
  }
}

TEST(Idx, LongerElementsAreTurnedRound) {
  const auto shorts = decoded(std::string("\0\0\x0b\x01\0\0\0\2\x01\x02\xff\xfe", 12));
  ASSERT_TRUE(shorts.ok()) << shorts.status();
  EXPECT_EQ(numbers<std::int16_t>(*shorts), (std::vector<std::int16_t>{0x0102, -2}));
  const auto floats = decoded(std::string("\0\0\x0d\x01\0\0\0\1\x40\xd0\0\0", 12));
  ASSERT_TRUE(floats.ok()) << floats.status();
  EXPECT_EQ(numbers<float>(*floats), std::vector<float>{6.5});
}

TEST(Idx, FilesCutOffAnywhereAreCorrupt) {
  for (std::size_t size = 0; size < kImages.size(); ++size)
    expect_failure(decoded(kImages.substr(0, size)), Code::kCorrupt, "train-images");
  const std::string packed = gzipped(kImages);
  for (std::size_t size = 0; size < packed.size(); ++size)
    expect_failure(decoded(packed.substr(0, size)), Code::kCorrupt, "train-images");
}

TEST(Idx, MoreThanTheHeaderAnnouncesIsCorrupt) {
  expect_failure(decoded(kImages + "x"), Code::kCorrupt, "[2, 2, 3] in 12 bytes, and there are 13");
  expect_failure(decoded(gzipped(kImages + "xyz")), Code::kCorrupt, "in 12 bytes, and there are at least 13");
}

TEST(Idx, BytesThatWereChangedInACompressedFileAreNoticed) {
  std::string packed = gzipped(kImages);
  packed[packed.size() - 6] ^= 1;  // of the checksum
  expect_failure(decoded(packed), Code::kCorrupt, "incorrect data check");
}

TEST(Idx, HeadersThatLieCostNothing) {
  const std::string huge("\0\0\x0e\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
  expect_failure(decoded(huge), Code::kCorrupt, "no file holds");
  expect_failure(decoded(gzipped(huge)), Code::kCorrupt, "no file holds");
  const std::string large("\0\0\x08\x02\0\xff\xff\xff\0\xff\xff\xff", 12);
  expect_failure(decoded(large), Code::kCorrupt, "and there are 0");
  expect_failure(decoded(gzipped(large)), Code::kCorrupt, "and there are 0");
}

TEST(Idx, WhatIsNotIdxSaysSo) {
  expect_failure(decoded("\x93NUMPY"), Code::kCorrupt, "two zero bytes");
  expect_failure(decoded(std::string("\0\0\x07\x01\0\0\0\0", 8)), Code::kCorrupt, "not an element type");
  expect_failure(decoded(std::string("\0\0\x08\0", 4)), Code::kCorrupt, "no dimensions");
  expect_failure(decoded(std::string("\0\0\x08\x09", 4)), Code::kUnsupported, "9 dimensions");
}

TEST(Cifar, RecordsOfSeveralFilesBecomeImagesAndLabels) {
  const std::string first = "\7" + std::string(3072, 'a') + "\1" + std::string(3072, 'b');
  const std::string second = std::string("\0", 1) + std::string(3072, 'c');
  const auto samples = decode_cifar({slice(first), slice(second)}, {"data_batch_1.bin", "data_batch_2.bin"});
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples->inputs.dtype, DType::kUInt8);
  EXPECT_EQ(samples->inputs.shape, (Shape{3, 3, 32, 32}));
  EXPECT_EQ(samples->targets.shape, Shape{3});
  EXPECT_EQ(numbers<std::int64_t>(samples->targets), (std::vector<std::int64_t>{7, 1, 0}));
  const std::string_view images = as_string_view(samples->inputs.bytes.bytes);
  EXPECT_EQ(images, std::string(3072, 'a') + std::string(3072, 'b') + std::string(3072, 'c'));
}

TEST(Cifar, BadRecordsAreNamed) {
  const std::string good = "\7" + std::string(3072, 'a');
  expect_failure(decode_cifar({slice(good.substr(1))}, {"b.bin"}), Code::kCorrupt, "b.bin: 3072 bytes");
  expect_failure(decode_cifar({slice("")}, {"b.bin"}), Code::kCorrupt, "b.bin: 0 bytes");
  expect_failure(decode_cifar({slice(good), slice(good + "\x0a" + std::string(3072, 'a'))}, {"a.bin", "b.bin"}),
                 Code::kCorrupt, "b.bin: record 1 at byte 3073 has the label 10");
  expect_failure(decode_cifar({slice(gzipped("x"))}, {"cifar.tar.gz"}), Code::kUnsupported, "unpack it");
}

}  // namespace
}  // namespace ravnest::data
