#include "ravnest/machine/link_protocol.h"

#include <gtest/gtest.h>

#include <string>

namespace ravnest {
namespace {

TEST(LinkProtocol, HelloHasTheseBytes) {
  const std::string expected("RVNLINK\n\1\0\0\0\x33\0\0\0\xd0\x07\0\0", kHelloBytes);
  EXPECT_EQ(as_string_view(encode(LinkHello{51, 2000})), expected);
  EXPECT_EQ(decode_hello(as_byte_span(expected)).value(), (LinkHello{51, 2000}));
}

TEST(LinkProtocol, AnswersAndRatesReadBack) {
  for (const auto answer : {LinkAnswer::kReady, LinkAnswer::kBusy, LinkAnswer::kRefused}) {
    EXPECT_EQ(encode(answer).size(), kAnswerBytes);
    EXPECT_EQ(decode_answer(encode(answer)).value(), answer);
  }
  const StreamRate rate{12'500'000, std::chrono::seconds(1)};
  EXPECT_EQ(encode(rate).size(), kRateBytes);
  EXPECT_EQ(decode_rate(encode(rate)).value(), rate);
  EXPECT_DOUBLE_EQ(rate.mbps(), 100.0);
}

TEST(LinkProtocol, StrangersHelloIsCorrupt) {
  EXPECT_EQ(decode_hello(as_byte_span("GET / HTTP/1.1\r\n\r\n..")).status().code(), Code::kCorrupt);
  EXPECT_EQ(decode_hello({}).status().code(), Code::kCorrupt);
}

TEST(LinkProtocol, CutOrLongerOrOddHelloIsCorrupt) {
  auto bytes = encode(LinkHello{1, 1});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode_hello(ByteSpan(bytes).first(size)).status().code(), Code::kCorrupt) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_EQ(decode_hello(bytes).status().code(), Code::kCorrupt);
  bytes.pop_back();
  bytes[10] = std::byte{1};
  EXPECT_EQ(decode_hello(bytes).status().code(), Code::kCorrupt);
}

TEST(LinkProtocol, OtherVersionIsUnsupportedAndTheMessageNamesBoth) {
  auto bytes = encode(LinkHello{1, 1});
  bytes[8] = std::byte{7};
  const Status status = decode_hello(bytes).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("version 7"), std::string::npos) << status;
}

TEST(LinkProtocol, AskingForNothingOrForTooMuchIsInvalid) {
  for (const LinkHello hello : {LinkHello{0, 1}, LinkHello{1, 0}, LinkHello{kMaxEchoes + 1, 1},
                                LinkHello{1, kMaxStreamMs + 1}, LinkHello{~0U, ~0U}}) {
    EXPECT_EQ(decode_hello(encode(hello)).status().code(), Code::kInvalid);
  }
  EXPECT_TRUE(decode_hello(encode(LinkHello{kMaxEchoes, kMaxStreamMs})).ok());
}

TEST(LinkProtocol, ReportThatCannotBeIsCorrupt) {
  EXPECT_EQ(decode_rate(encode(StreamRate{0, Duration(5)})).status().code(), Code::kCorrupt);
  EXPECT_EQ(decode_rate(encode(StreamRate{5, Duration(0)})).status().code(), Code::kCorrupt);
  EXPECT_EQ(decode_rate(encode(StreamRate{5, Duration(-1)})).status().code(), Code::kCorrupt);
  EXPECT_EQ(decode_rate({}).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace ravnest
