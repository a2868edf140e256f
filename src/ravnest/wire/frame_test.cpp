#include "ravnest/wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ravnest/codec/crc32c.h"
#include "ravnest/wire/testing/messages.h"

namespace ravnest::wire {
namespace {

using testing::HasSubstr;

Hello sample_hello() {
  Hello hello;
  hello.software = "0.4";
  hello.plan = "p1";
  hello.from = "node_1";
  hello.to = "node_2";
  hello.purpose = Purpose::kProbe;
  hello.session = 0x1122334455667788;
  hello.peer_session = 9;
  hello.received[1] = {3, 4, 5};
  return hello;
}

std::array<std::byte, kHeaderBytes> header_bytes(FrameKind kind, std::uint8_t lane, std::uint32_t size) {
  return encode(FrameHeader{kind, lane, size, 0xdeadbeef});
}

TEST(FrameHeader, ComesBackAsItWas) {
  const auto header = decode_header(header_bytes(FrameKind::kAcknowledge, 3, 48));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->kind, FrameKind::kAcknowledge);
  EXPECT_EQ(header->lane, 3);
  EXPECT_EQ(header->size, 48);
  EXPECT_EQ(header->checksum, 0xdeadbeef);
}

TEST(FrameHeader, AnyFlippedBitIsNoticed) {
  const auto bytes = header_bytes(FrameKind::kChunk, 1, 1000);
  for (std::size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_EQ(decode_header(flipped).status().code(), Code::kCorrupt) << bit;
  }
}

TEST(FrameHeader, UnknownKindsAndLanesAreCorrupt) {
  EXPECT_THAT(decode_header(header_bytes(static_cast<FrameKind>(0), 0, 8)).status().message(), HasSubstr("kind 0"));
  EXPECT_THAT(decode_header(header_bytes(static_cast<FrameKind>(8), 0, 8)).status().message(), HasSubstr("kind 8"));
  EXPECT_THAT(decode_header(header_bytes(FrameKind::kChunk, kLanes, 100)).status().message(), HasSubstr("lane 4"));
}

TEST(FrameHeader, EachKindHasALongestBody) {
  const auto longest = [](FrameKind kind) -> std::uint32_t {
    if (kind == FrameKind::kChunk) return kMaxChunkBodyBytes;
    return kind == FrameKind::kProbe || kind == FrameKind::kProbeAnswer ? kMaxProbeBodyBytes : kMaxSmallBodyBytes;
  };
  for (int number = 1; number <= 7; ++number) {
    const auto kind = static_cast<FrameKind>(number);
    EXPECT_TRUE(decode_header(header_bytes(kind, 0, longest(kind))).ok()) << number;
    EXPECT_EQ(decode_header(header_bytes(kind, 0, longest(kind) + 1)).status().code(), Code::kCorrupt) << number;
    EXPECT_EQ(decode_header(header_bytes(kind, 0, 0xffffffff)).status().code(), Code::kCorrupt) << number;
  }
}

TEST(FrameHeader, AChunkHasData) {
  EXPECT_FALSE(decode_header(header_bytes(FrameKind::kChunk, 0, kChunkHeadBytes)).ok());
  EXPECT_TRUE(decode_header(header_bytes(FrameKind::kChunk, 0, kChunkHeadBytes + 1)).ok());
}

// -- golden bytes: a change here is a change of the protocol

TEST(FrameBytes, OfTheHeader) {
  EXPECT_EQ(hex(encode(FrameHeader{FrameKind::kChunk, 2, 0x01020304, 0x0a0b0c0d})), "03020000040302010d0c0b0a4f49c51d");
}
TEST(FrameBytes, OfAHello) {
  EXPECT_EQ(hex(encode(sample_hello())),
            "7261766e6573740a0400000003000000302e34020000007031060000006e6f64655f31060000006e6f64655f32018877"
            "665544332211090000000000000000000000000000000000000000000000000000000000000003000000000000000400"
            "000000000000050000000000000000000000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000000000000000");
}
TEST(FrameBytes, OfAChunk) {
  EXPECT_EQ(hex(encode(Chunk{1, 0x0203, 0x040506})), "010000000000000003020000000000000605040000000000");
}
TEST(FrameBytes, OfAnAcknowledgement) {
  EXPECT_EQ(hex(encode(Acknowledge{{1, 2, 3}})), "010000000000000002000000000000000300000000000000");
}
TEST(FrameBytes, OfAHeartbeat) {
  EXPECT_EQ(hex(encode(Heartbeat{1, -2, 3})), "0100000000000000feffffffffffffff0300000000000000");
}
TEST(FrameBytes, OfAGoodbye) { EXPECT_EQ(hex(encode(Goodbye{GoodbyeCode::kBroken, "bye"})), "0303000000627965"); }
TEST(FrameBytes, OfAProbeAndItsAnswer) {
  EXPECT_EQ(hex(encode(Probe{ProbeKind::kDialBack, 5, 6})), "02050000000000000006000000");
  EXPECT_EQ(hex(encode(ProbeAnswer{5, -1, true, "ok"})), "0500000000000000ffffffffffffffff01020000006f6b");
}

// -- bodies

TEST(Frame, AHelloComesBackAsItWas) {
  const auto hello = decode_hello(encode(sample_hello()));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(encode(*hello), encode(sample_hello()));
  EXPECT_EQ(hello->from, "node_1");
  EXPECT_EQ(hello->to, "node_2");
  EXPECT_EQ(hello->purpose, Purpose::kProbe);
  EXPECT_EQ(hello->received, sample_hello().received);
}

TEST(Frame, OtherBodiesComeBackAsTheyWere) {
  const auto chunk = decode_chunk(encode(Chunk{1, 2, 3}));
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(std::tuple(chunk->message, chunk->message_size, chunk->offset), std::tuple(1u, 2u, 3u));
  EXPECT_EQ(encode(Chunk{}).size(), kChunkHeadBytes);
  EXPECT_EQ(decode_acknowledge(encode(Acknowledge{{4, 5, 6}}))->received, (LaneProgress{4, 5, 6}));
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  const auto beat = decode_heartbeat(encode(Heartbeat{kLeast, -1, 7}));
  ASSERT_TRUE(beat.ok());
  EXPECT_EQ(std::tuple(beat->sent_ns, beat->echo_ns, beat->held_ns), std::tuple(kLeast, -1, 7));
  const auto bye = decode_goodbye(encode(Goodbye{GoodbyeCode::kBusy, "later"}));
  ASSERT_TRUE(bye.ok());
  EXPECT_EQ(std::tuple(bye->code, bye->reason), std::tuple(GoodbyeCode::kBusy, "later"));
  const auto probe = decode_probe(encode(Probe{ProbeKind::kDownload, 8, 9}));
  ASSERT_TRUE(probe.ok());
  EXPECT_EQ(std::tuple(probe->kind, probe->number, probe->size), std::tuple(ProbeKind::kDownload, 8u, 9u));
  const auto answer = decode_probe_answer(encode(ProbeAnswer{8, 123, false, "why"}));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(std::tuple(answer->number, answer->wall_ns, answer->ok, answer->text), std::tuple(8u, 123, false, "why"));
}

template <class Body, class Decode>
void expect_robust(const Body& body, Decode decode) {
  std::vector<std::byte> bytes = encode(body);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode(ByteSpan(bytes).first(size)).status().code(), Code::kCorrupt) << "truncated to " << size;
  }
  const std::vector<std::byte> exact = bytes;
  for (int i = 0; i < 20; ++i) bytes.push_back(std::byte{0xee});
  const auto later = decode(bytes);
  ASSERT_TRUE(later.ok()) << "with fields of a later minor version: " << later.status();
  EXPECT_EQ(encode(*later), exact);
}

TEST(Frame, TruncatedBodiesAreCorruptAndLaterFieldsIgnored) {
  expect_robust(sample_hello(), decode_hello);
  expect_robust(Chunk{1, 2, 3}, decode_chunk);
  expect_robust(Acknowledge{{1, 2, 3}}, decode_acknowledge);
  expect_robust(Heartbeat{1, 2, 3}, decode_heartbeat);
  expect_robust(Goodbye{GoodbyeCode::kClosing, "bye"}, decode_goodbye);
  expect_robust(Probe{ProbeKind::kUpload, 1, 2}, decode_probe);
  expect_robust(ProbeAnswer{1, 2, true, "text"}, decode_probe_answer);
}

TEST(Frame, AnotherMajorVersionIsRefusedWithASentence) {
  Hello hello = sample_hello();
  hello.major = kMajorVersion + 1;
  hello.minor = 4;
  std::vector<std::byte> bytes = encode(hello);
  bytes.resize(12);  // whatever follows the version there
  const auto refused = decode_hello(bytes);
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  EXPECT_EQ(refused.status().message(),
            "it speaks version 5.4 of the protocol, this node 4.0; install the same release of ravnest on both");
}

TEST(Frame, ALaterMinorVersionIsUnderstood) {
  Hello hello = sample_hello();
  hello.minor = kMinorVersion + 5;
  EXPECT_TRUE(decode_hello(encode(hello)).ok());
}

TEST(Frame, WhatIsNoHelloIsCorrupt) {
  EXPECT_EQ(decode_hello(as_byte_span("GET / HTTP/1.1\r\n\r\n")).status().code(), Code::kCorrupt);
  EXPECT_EQ(decode_hello({}).status().code(), Code::kCorrupt);
}

TEST(Frame, UnknownNumbersOfKindsAreCorrupt) {
  std::vector<std::byte> bytes = encode(Probe{});
  bytes[0] = std::byte{3};
  EXPECT_FALSE(decode_probe(bytes).ok());
  bytes = encode(ProbeAnswer{});
  bytes[16] = std::byte{2};
  EXPECT_FALSE(decode_probe_answer(bytes).ok());
}

TEST(Frame, AGoodbyeOfALaterVersionCanBeRead) {
  std::vector<std::byte> bytes = encode(Goodbye{GoodbyeCode::kRefused, "why"});
  bytes[0] = std::byte{200};
  const auto goodbye = decode_goodbye(bytes);
  ASSERT_TRUE(goodbye.ok()) << goodbye.status();
  EXPECT_EQ(goodbye->reason, "why");
}

TEST(Frame, AStringLongerThanTheBodyIsCorrupt) {
  std::vector<std::byte> bytes = encode(Goodbye{GoodbyeCode::kClosing, "bye"});
  for (std::size_t i = 1; i < 5; ++i) bytes[i] = std::byte{255};
  EXPECT_EQ(decode_goodbye(bytes).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace ravnest::wire
