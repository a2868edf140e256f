// Messages that do not add up: as they come, and as somebody would send them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/wire/message.h"
#include "ravnest/wire/testing/messages.h"
#include "ravnest/wire/testing/sample_messages.h"

namespace ravnest::wire {
namespace {

using testing::HasSubstr;

TEST(Message, TruncatedAnywhereItIsCorrupt) {
  for (const Message& message : one_of_each()) {
    const std::vector<std::byte> bytes = joined(*encode(message));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto decoded = decode(received(ByteSpan(bytes).first(size)));
      ASSERT_FALSE(decoded.ok()) << "kind " << message.index() << " at " << size << " of " << bytes.size();
      ASSERT_EQ(decoded.status().code(), Code::kCorrupt);
    }
  }
}

TEST(Message, BytesBehindTheEndAreCorrupt) {
  for (const Message& message : one_of_each()) {
    std::vector<std::byte> bytes = joined(*encode(message));
    for (const std::size_t extra : {1, 63, 64, 200}) {
      std::vector<std::byte> longer = bytes;
      longer.resize(bytes.size() + extra);
      EXPECT_EQ(decode(received(longer)).status().code(), Code::kCorrupt) << message.index() << " and " << extra;
    }
  }
}

TEST(Message, FieldsOfALaterMinorVersionAreIgnored) {
  std::vector<std::byte> bytes = joined(*encode(Failed{1, false, "now"}));
  for (int i = 0; i < 10; ++i) bytes.push_back(std::byte{77});
  bytes[0] = static_cast<std::byte>(bytes.size());
  const auto decoded = decode(received(bytes));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(std::get<Failed>(*decoded).reason, "now");
}

TEST(Message, AnUnknownKindIsCorrupt) {
  std::vector<std::byte> bytes = joined(*encode(Failed{1, false, "now"}));
  bytes[4] = std::byte{13};
  EXPECT_THAT(decode(received(bytes)).status().message(), HasSubstr("unknown kind 13"));
  bytes[4] = std::byte{255};
  EXPECT_EQ(decode(received(bytes)).status().code(), Code::kCorrupt);
  bytes = joined(*encode(Averaging(CallRound())));
  bytes[5] = std::byte{7};
  EXPECT_THAT(decode(received(bytes)).status().message(), HasSubstr("unknown kind 7"));
}

TEST(Message, AListLongerThanTheMessageIsCorruptAndTakesNoMemory) {
  std::vector<std::byte> bytes = joined(*encode(Backward{1, 2, {}}));
  // The count of tensors stands behind the size, the kind, the pass and the stage.
  for (std::size_t i = 17; i < 21; ++i) bytes[i] = std::byte{255};
  const auto decoded = decode(received(bytes));
  EXPECT_THAT(decoded.status().message(), HasSubstr("a list of 4294967295 elements does not fit"));
}

TEST(Message, ALieAboutTheHeadsSizeIsCorrupt) {
  const std::vector<std::byte> bytes = joined(*encode(Failed{1, false, "now"}));
  for (const std::uint32_t size : {0u, 4u, 6u, static_cast<std::uint32_t>(bytes.size() + 1), 0xffffffffu}) {
    std::vector<std::byte> lying = bytes;
    std::memcpy(lying.data(), &size, sizeof size);
    EXPECT_EQ(decode(received(lying)).status().code(), Code::kCorrupt) << size;
  }
}

TEST(Message, AFlagIsOneOrZero) {
  std::vector<std::byte> bytes = joined(*encode(TiedTensors{true, 1, 0, {}}));
  bytes.at(5) = std::byte{2};
  EXPECT_THAT(decode(received(bytes)).status().message(), HasSubstr("a byte that must be 0 or 1 is 2"));
}

// Where the tensor's own fields begin: behind the pass's head, the stage, the count, the index and a flag.
constexpr std::size_t kTensorAt = 5 + (8 + 1 + 8 + 8 + 4 + 4 + 8 + 1 + 8 + 5 * 8) + 4 + 4 + 4 + 1;

std::vector<std::byte> one_tensor() {
  Forward forward;
  forward.tensors.push_back({0, false, tensor_of(DType::kFloat32, {2, 2}, 16)});
  return joined(*encode(forward));
}

TEST(Message, ATensorsUnknownTypeOrCodecIsCorrupt) {
  std::vector<std::byte> bytes = one_tensor();
  bytes[kTensorAt] = std::byte{200};
  EXPECT_THAT(decode(received(bytes)).status().message(), HasSubstr("unknown type 200"));
  bytes = one_tensor();
  bytes[kTensorAt + 1] = std::byte{99};
  EXPECT_THAT(decode(received(bytes)).status().message(), HasSubstr("unknown number 99"));
}

TEST(Message, ATensorsSizeMustFollowFromItsShape) {
  for (const std::int64_t first : {std::int64_t{3}, std::int64_t{-2}, std::int64_t{1} << 62, INT64_MAX, INT64_MIN}) {
    std::vector<std::byte> bytes = one_tensor();
    std::memcpy(bytes.data() + kTensorAt + 6, &first, sizeof first);
    EXPECT_EQ(decode(received(bytes)).status().code(), Code::kCorrupt) << first;
  }
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{15}, std::uint64_t{17}, UINT64_MAX}) {
    std::vector<std::byte> bytes = one_tensor();
    std::memcpy(bytes.data() + kTensorAt + 26, &size, sizeof size);
    EXPECT_EQ(decode(received(bytes)).status().code(), Code::kCorrupt) << size;
  }
}

TEST(Message, AnOrderOfDimensionsNamesEachOnce) {
  Tensor tensor = tensor_of(DType::kUInt8, {2, 2}, 4);
  for (const std::vector<std::uint8_t>& order : {std::vector<std::uint8_t>{1}, {1, 1}, {0, 2}, {0, 1, 1}}) {
    tensor.order = order;
    EXPECT_EQ(encode(RingChunk{0, 0, 0, 0, 0, 0, tensor}).status().code(), Code::kInvalid);
  }
  tensor.order = {1, 0};
  std::vector<std::byte> bytes = joined(*encode(RingChunk{0, 0, 0, 0, 0, 0, tensor}));
  EXPECT_TRUE(decode(received(bytes)).ok());
  const std::vector<std::byte> written{std::byte{1}, std::byte{0}, std::byte{4}};
  const auto order = std::search(bytes.begin(), bytes.end(), written.begin(), written.end());
  ASSERT_NE(order, bytes.end());
  *order = std::byte{0};
  EXPECT_EQ(decode(received(bytes)).status().code(), Code::kCorrupt);
}

TEST(Message, AShapeOfSixtyFourDimensionsIsTheLongest) {
  Tensor tensor = tensor_of(DType::kUInt8, std::vector<std::int64_t>(64, 1), 1);
  EXPECT_TRUE(round_trip(RingChunk{0, 0, 0, 0, 0, 0, tensor}).ok());
  tensor.shape.push_back(1);
  const auto refused = encode(RingChunk{0, 0, 0, 0, 0, 0, tensor});
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
  EXPECT_THAT(refused.status().message(), HasSubstr("65 dimensions"));
}

TEST(Message, TensorsWhoseBytesDoNotMatchTheirShapeAreNotSent) {
  const auto refusal = [](Tensor tensor) { return encode(RingChunk{0, 0, 0, 0, 0, 0, std::move(tensor)}).status(); };
  EXPECT_EQ(refusal(tensor_of(DType::kFloat32, {2, 2}, 15)).code(), Code::kInvalid);
  EXPECT_THAT(refusal(tensor_of(DType::kFloat32, {2, 2}, 17)).message(),
              HasSubstr("a tensor of 4 elements of float32 has 17 bytes instead of 16"));
  EXPECT_EQ(refusal(tensor_of(DType::kFloat32, {-1}, 4)).code(), Code::kInvalid);
  Tensor compressed = tensor_of(DType::kFloat32, {8}, 15);
  compressed.codec = codec::CodecKind::kBf16;
  EXPECT_EQ(refusal(compressed).code(), Code::kInvalid);
  compressed = tensor_of(DType::kFloat64, {8}, 16);
  compressed.codec = codec::CodecKind::kBf16;
  EXPECT_THAT(refusal(compressed).message(), HasSubstr("only float32 is compressed"));
}

TEST(Message, FieldsBeyondTheLimitAreNotSent) {
  EXPECT_TRUE(encode(Failed{0, false, std::string(kMaxHeadBytes - 14, 'x')}).ok());
  const auto refused = encode(Failed{0, false, std::string(kMaxHeadBytes - 13, 'x')});
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
}

TEST(Message, ALongestHeadIsDecoded) {
  const auto decoded = round_trip(Failed{0, false, std::string(kMaxHeadBytes - 14, 'x')});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(std::get<Failed>(*decoded).reason.size(), kMaxHeadBytes - 14);
}

TEST(Message, TheElementsOfAnEmptyShapeAreOneAndOfAZeroNone) {
  EXPECT_EQ(element_count(tensor_of(DType::kUInt8, {}, 1)), 1);
  EXPECT_EQ(element_count(tensor_of(DType::kUInt8, {INT64_MAX, INT64_MAX, 0}, 0)), 0);
  EXPECT_TRUE(round_trip(RingChunk{0, 0, 0, 0, 0, 0, tensor_of(DType::kUInt8, {std::int64_t{1} << 58, 0}, 0)}).ok());
}

}  // namespace
}  // namespace ravnest::wire
