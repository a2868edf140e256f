#include "ravnest/wire/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "ravnest/wire/testing/messages.h"
#include "ravnest/wire/testing/sample_messages.h"

namespace ravnest::wire {
namespace {

using testing::HasSubstr;

TEST(Message, EveryKindComesBackAsItWas) {
  const auto forward = round_trip(one_of_each()[0]);
  ASSERT_TRUE(forward.ok()) << forward.status();
  const auto& a = std::get<Forward>(*forward);
  const Forward expected = sample_forward();
  EXPECT_EQ(a.head, expected.head);
  EXPECT_EQ(a.stage, 3);
  ASSERT_EQ(a.tensors.size(), 4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(a.tensors[i].index, expected.tensors[i].index);
    EXPECT_EQ(a.tensors[i].wants_gradient, expected.tensors[i].wants_gradient);
    EXPECT_TRUE(same(a.tensors[i].tensor, expected.tensors[i].tensor)) << i;
  }

  const auto backward = round_trip(one_of_each()[1]);
  ASSERT_TRUE(backward.ok()) << backward.status();
  EXPECT_EQ(std::get<Backward>(*backward).pass, 9);
  EXPECT_EQ(std::get<Backward>(*backward).stage, 2);
  EXPECT_TRUE(same(std::get<Backward>(*backward).tensors.at(0).tensor, tensor_of(DType::kBFloat16, {70}, 140)));

  const auto chunk = round_trip(one_of_each()[2]);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const auto& c = std::get<RingChunk>(*chunk);
  EXPECT_EQ(std::tuple(c.round, c.attempt, c.vector, c.segment, c.chunk, c.hop), std::tuple(4u, 5u, 6u, 7u, 8u, 9u));
  EXPECT_TRUE(same(c.tensor, tensor_of(DType::kFloat32, {16}, 64)));

  const auto ready = round_trip(one_of_each()[3]);
  ASSERT_TRUE(ready.ok()) << ready.status();
  EXPECT_EQ(std::get<Ready>(*ready), sample_ready());

  const auto report = round_trip(one_of_each()[4]);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto& r = std::get<Report>(*report);
  EXPECT_EQ(std::tuple(r.pass, r.loss, r.samples, r.correct), std::tuple(13u, 0.5, 64u, 60u));
  EXPECT_TRUE(same(r.outputs.at(0), tensor_of(DType::kFloat32, {2}, 8)));

  const auto tied = round_trip(one_of_each()[5]);
  ASSERT_TRUE(tied.ok()) << tied.status();
  const auto& t = std::get<TiedTensors>(*tied);
  EXPECT_EQ(std::tuple(t.gradients, t.number, t.stage), std::tuple(true, 14u, 1u));
  EXPECT_EQ(t.tensors.at(0).name, "head.weight");

  const auto failed = round_trip(one_of_each()[6]);
  ASSERT_TRUE(failed.ok()) << failed.status();
  const auto& f = std::get<Failed>(*failed);
  EXPECT_EQ(std::tuple(f.stage, f.lost, f.reason), std::tuple(2u, true, "was lost"));

  const auto over = round_trip(one_of_each()[7]);
  ASSERT_TRUE(over.ok()) << over.status();
  EXPECT_EQ(std::get<Over>(*over), (Over{15, {true, "a1b2", 7, CheckpointRun{"c3d4", 16}}}));

  const auto account = round_trip(one_of_each()[9]);
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_EQ(std::get<Account>(*account), sample_account());
}

TEST(Message, WhatIsNotThereComesBackAsThat) {
  for (const std::optional<double> accuracy : {std::optional<double>(), std::optional(97.25)}) {
    for (const std::optional<std::string>& unsaved : {std::optional<std::string>(), std::optional(std::string())}) {
      const Closed closed{accuracy, true, unsaved};
      const auto back = round_trip(closed);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(std::get<Closed>(*back), closed);
    }
  }
}

TEST(Message, MeansOfNothingAreWrittenAsZeroAndReadAsALie) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double none : {kNan, std::numeric_limits<double>::infinity(), -1e-9}) {
    Account account = sample_account();
    account.work.staleness_mean = none;
    const auto back = round_trip(account);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(std::get<Account>(*back).work.staleness_mean, 0);

    std::vector<std::byte> lie = joined(*encode(sample_account()));
    std::memcpy(lie.data() + 5, &none, sizeof none);  // running_s, the first field
    EXPECT_EQ(decode(received(lie)).status().code(), Code::kCorrupt) << none;
  }
}

TEST(Message, WhatIsSaidOfAveragingComesBackAsItWas) {
  const std::vector<Averaging> one_of_each = {
      sample_state(),
      Attempt{.round = 16, .attempt = 17, .participants = {{21, 0.25}, {22, 0.75}}, .last = true, .whole = false},
      Attempt{.round = 16, .attempt = 18, .participants = {}, .checkpoint = 23, .checkpoint_next = true},
      CommitAttempt{.round = 16, .attempt = 17},
      CallRound{.round = 16},
      SendOut{.round = 16, .attempt = 17, .alone = true},
      AttemptComplete{.attempt = 17},
      ClusterMissing{.attempt = 17, .cluster = 19}};
  ASSERT_EQ(one_of_each.size(), std::variant_size_v<Averaging> + 1);
  for (const Averaging& averaging : one_of_each) {
    const auto again = round_trip(averaging);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(std::get<Averaging>(*again), averaging) << averaging.index();
  }
}

TEST(Message, WhatIsSaidOfCheckpointsComesBackAsItWas) {
  const std::vector<Checkpointing> one_of_each = {PartWritten{16, "{}", "the disk is full"},
                                                  PartWritten{16, "{}", {}},
                                                  CheckpointOver{17, "{}"},
                                                  CheckpointOver{17, {}},
                                                  EndWanted{"got SIGTERM"},
                                                  PartUploaded{18, "the server says 403"},
                                                  PartUploaded{18, {}},
                                                  ClusterParts{16, "{}", {}},
                                                  ClusterParts{16, "", "node_1: the disk is full"},
                                                  RunOffer{"newest", {{"c3d4", 16, 97.25}, {"c3d4", 8, {}}}},
                                                  RunOffer{},
                                                  RunChosen{{"c3d4", 16}, {0, 2}, {}},
                                                  RunChosen{{}, {}, "cluster 1 has none"}};
  for (const Checkpointing& checkpointing : one_of_each) {
    const auto again = round_trip(checkpointing);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(std::get<Checkpointing>(*again), checkpointing) << checkpointing.index();
  }
}

TEST(Message, WhatIsSaidInAMeetingComesBackAsItWas) {
  const std::vector<Meeting> one_of_each = {Join{4, "10.0.0.2", 40001, {{"model", "a1b2"}, {"release", "1.0"}}},
                                            Table{{{"", 29500}, {"10.0.0.2", 40001}}}, Connected{}, AllConnected{}};
  ASSERT_EQ(one_of_each.size(), std::variant_size_v<Meeting>);
  for (const Meeting& meeting : one_of_each) {
    const auto again = round_trip(meeting);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(std::get<Meeting>(*again), meeting) << meeting.index();
  }
}

TEST(Message, ATensorOfAnyTypeComesBack) {
  for (int number = 0; number <= static_cast<int>(DType::kUInt64); ++number) {
    const auto dtype = static_cast<DType>(number);
    const Tensor tensor = tensor_of(dtype, {3}, 3 * item_size(dtype));
    const auto back = round_trip(RingChunk{0, 0, 0, 0, 0, 0, tensor});
    ASSERT_TRUE(back.ok()) << dtype_name(dtype) << ": " << back.status();
    EXPECT_TRUE(same(std::get<RingChunk>(*back).tensor, tensor));
  }
}

TEST(Message, ACompressedTensorComesBackWithItsCodec) {
  for (const codec::CodecKind kind :
       {codec::CodecKind::kBf16, codec::CodecKind::kFp16, codec::CodecKind::kInt8, codec::CodecKind::kInt4}) {
    Tensor tensor = tensor_of(DType::kFloat32, {130}, codec::encoded_size({kind, 1}, 130));
    tensor.codec = kind;
    const auto back = round_trip(RingChunk{0, 0, 0, 0, 0, 0, tensor});
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(same(std::get<RingChunk>(*back).tensor, tensor));
  }
}

// A compressed tensor as its bytes would be, whatever its shape says.
Tensor claimed(codec::CodecKind kind, std::vector<std::int64_t> shape, std::size_t bytes) {
  Tensor tensor = tensor_of(DType::kFloat32, std::move(shape), bytes);
  tensor.codec = kind;
  return tensor;
}

TEST(Message, ATopKTensorHasAtLeastTheBytesThatItsShapeAsksFor) {
  using codec::CodecKind::kTopK;
  const auto sent = [](Tensor tensor) { return encode(RingChunk{0, 0, 0, 0, 0, 0, std::move(tensor)}).status(); };
  EXPECT_TRUE(sent(claimed(kTopK, {65537}, 2 * 4 + 6)).ok());
  EXPECT_TRUE(sent(claimed(kTopK, {0}, 0)).ok());
  for (const auto& [elements, bytes] : {std::pair<std::int64_t, std::size_t>{std::int64_t{1} << 33, 10},
                                        {65537, 4 + 6},
                                        {65537, 2 * 4},
                                        {65537, 2 * 4 + 7},
                                        {2, 4 + 3 * 6},
                                        {0, 6}}) {
    EXPECT_THAT(sent(claimed(kTopK, {elements}, bytes)).message(), HasSubstr("no encoding of it has")) << elements;
  }
}

TEST(Message, AShapeThatItsBytesCanNotBeIsNotRead) {
  const RingChunk sound{0, 0, 0, 0, 0, 0, claimed(codec::CodecKind::kTopK, {2}, 10)};
  std::vector<std::byte> bytes = joined(*encode(sound));
  ASSERT_TRUE(decode(received(bytes)).ok());
  constexpr std::size_t kShape = 5 + 2 * 8 + 4 * 4 + 1 + 1 + 4;  // behind size, kind and fields, dtype, codec, count
  constexpr std::int64_t kHuge = std::int64_t{1} << 33;
  std::memcpy(bytes.data() + kShape, &kHuge, sizeof kHuge);
  EXPECT_THAT(decode(received(bytes)).status().message(), HasSubstr("of 8589934592 elements has 10 bytes"));
}

TEST(Message, EncodingRefersToTheTensorsOwnBytes) {
  const Forward forward = sample_forward();
  const auto encoded = encode(forward);
  ASSERT_TRUE(encoded.ok());
  std::size_t own = 0;
  for (const EdgeTensor& edge : forward.tensors) {
    for (const Slice& part : encoded->parts)
      own += part.size() > 0 && part.bytes.data() == edge.tensor.data.bytes.data() ? 1 : 0;
  }
  EXPECT_EQ(own, 3);  // all but the empty one
}

TEST(Message, DecodedTensorsAreAlignedPartsOfTheBuffer) {
  const auto encoded = encode(sample_forward());
  ASSERT_TRUE(encoded.ok());
  Slice buffer = received(joined(*encoded));
  const std::byte* const begin = buffer.bytes.data();
  const std::byte* const end = begin + buffer.size();
  std::weak_ptr<const void> owner = buffer.owner;
  auto message = decode(buffer);
  buffer = {};
  ASSERT_TRUE(message.ok()) << message.status();
  for (const EdgeTensor& edge : std::get<Forward>(*message).tensors) {
    const Slice& data = edge.tensor.data;
    if (data.size() == 0) continue;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.bytes.data()) % kAlignment, 0);
    EXPECT_GE(data.bytes.data(), begin);
    EXPECT_LE(data.bytes.data() + data.size(), end);
    EXPECT_EQ(data.owner, owner.lock());
  }
  EXPECT_FALSE(owner.expired());
  message = Result<Message>(Ready{});
  EXPECT_TRUE(owner.expired());
}

TEST(Message, TheBytesOfAMessageAreThese) {
  Forward forward{.head = sample_head(), .stage = 3, .tensors = {}, .model_inputs = {}};
  forward.head.pass = 0x0102030405060708;
  forward.tensors.push_back({5, true, tensor_of(DType::kFloat32, {1, 2}, 8, 0xa0)});
  const auto encoded = encode(forward);
  ASSERT_TRUE(encoded.ok());
  const std::vector<std::byte> bytes = joined(*encoded);
  EXPECT_EQ(hex(bytes),
            "9200000000080706050403020101000010000000000005000000000000000100000004000000000000000000"
            "d03f01030000000000000002000000000000000b00000000000000efcdab89674523010c000000000000000d0000"
            "0000000000030000000100000005000000010700020000000100000000000000020000000000000000000000080000000000"
            "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000a0a1a2a3a4a5a6a7");
}

TEST(Message, TheBytesOfAMeetingAreThese) {
  const Meeting join = Join{.world = 4, .host = "10.0.0.2", .port = 40001, .settings = {{"model", "a1"}}};
  EXPECT_EQ(hex(joined(*encode(join))),
            "2b0000000b00040000000800000031302e302e302e32419c01000000050000006d6f64656c020000006131");
  EXPECT_EQ(hex(joined(*encode(Meeting(Table{{{"", 29500}, {"b", 1}}})))),
            "170000000b0102000000000000003c730100000062"
            "0100");
  EXPECT_EQ(hex(joined(*encode(Meeting(Connected())))), "060000000b02");
}

TEST(Message, KindsKeepTheirNumbers) {
  const auto messages = one_of_each();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(joined(*encode(messages[i])).at(4), static_cast<std::byte>(i));
  }
  EXPECT_EQ(joined(*encode(Averaging(ClusterMissing()))).at(5), std::byte{6});
  static_assert(std::variant_size_v<Averaging> == 7);
  EXPECT_EQ(joined(*encode(Meeting(AllConnected()))).at(5), std::byte{3});
  static_assert(std::variant_size_v<Meeting> == 4);
  EXPECT_EQ(joined(*encode(Checkpointing(RunChosen()))).at(5), std::byte{6});
  static_assert(std::variant_size_v<Checkpointing> == 7);
  static_assert(std::variant_size_v<Message> == 13, "a new kind belongs into this test, and to the end of the list");
}

}  // namespace
}  // namespace ravnest::wire
