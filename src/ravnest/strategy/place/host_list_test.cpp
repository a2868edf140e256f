#include "ravnest/strategy/place/host_list.h"

#include <gtest/gtest.h>

namespace ravnest::strategy {
namespace {

TEST(HostList, TheFirstHostIsTheFirstNumberOfEveryBracket) {
  EXPECT_EQ(first_host("n1").value(), "n1");
  EXPECT_EQ(first_host("n1,n2").value(), "n1");
  EXPECT_EQ(first_host("n[1-3]").value(), "n1");
  EXPECT_EQ(first_host("n[007-009,12],m").value(), "n007");
  EXPECT_EQ(first_host("gpu-a[3,1]-b.example.org").value(), "gpu-a3-b.example.org");
  EXPECT_EQ(first_host("rack[1-2]-node[04-09],x").value(), "rack1-node04");
}

TEST(HostList, WhatIsNoListIsRefused) {
  for (const char* list : {"", ",n1", "n[1-3", "n[]", "n[a-b]", "n[-3]", "n 1", "n;reboot", "n[1-3]]"}) {
    EXPECT_EQ(first_host(list).status().code(), Code::kInvalid) << list;
  }
}

}  // namespace
}  // namespace ravnest::strategy
