#include "ravnest/net/address.h"

#include <gtest/gtest.h>

namespace ravnest {
namespace {

TEST(Address, HostAndPortAreReadAndWrittenTheSame) {
  for (const char* written : {"192.168.1.7:8080", "node-3.example:1", "[::1]:9000", "[fe80::1%eth0]:65535"}) {
    const auto address = parse_address(written);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(text(*address), written);
  }
  EXPECT_EQ(*parse_address("[::1]:9000"), (Address{"::1", 9000}));
}

TEST(Address, WhatIsNoAddressIsRefusedWithTheFormThatIsExpected) {
  for (const char* written :
       {"", "host", "host:", ":80", "host:0", "host:65536", "host:8o", "host:-1", "::1:9000", "[]:80", "[host]:80",
        "a b:80", "http://host:80", "host:80 ", "ho\nst:80", "a/b:80", "a'b:80", "a\\b:80"}) {
    const Status status = parse_address(written).status();
    EXPECT_EQ(status.code(), Code::kInvalid) << written;
    EXPECT_NE(status.message().find("HOST:PORT"), std::string::npos) << status;
  }
}

TEST(Address, EverywhereIsDialledAsLoopback) {
  EXPECT_EQ(text(dialled(*parse_address("0.0.0.0:80"))), "127.0.0.1:80");
  EXPECT_EQ(text(dialled(*parse_address("[::]:80"))), "[::1]:80");
  EXPECT_EQ(text(dialled(*parse_address("10.0.0.1:80"))), "10.0.0.1:80");
}

}  // namespace
}  // namespace ravnest
