#include "ravnest/plan/pool/pool_entry.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "ravnest/base/file.h"
#include "ravnest/base/testing/folders.h"

namespace ravnest::plan {
namespace {

namespace fs = std::filesystem;

const PoolEntry kEntry{"10.0.0.2:8080", 7.98765, 941.23, 123.456, 0.123456};

constexpr const char* kTwoNodes = R"({
  "1": {"name": "attic", "IP": "10.0.0.2:8080", "benchmarks": {"reliability": 0.9, "ram": 1, "bandwidth": 2, "latency": 9}},
  "0": {"IP": "10.0.0.1:8080", "benchmarks": {"ram": 8.0, "bandwidth": 10}, "bind": "[::1]:8080", "x": [1e-7, null]}
})";

TEST(PoolEntry, EntryHasTheFormOfThePoolFileAndFourDigits) {
  EXPECT_EQ(to_json(kEntry).dump(),
            R"({"IP":"10.0.0.2:8080","benchmarks":{"ram":7.988,"bandwidth":941.2,"compute":123.5,"latency":0.1235}})");
}

TEST(PoolEntry, WhatWasNotMeasuredIsLeftOut) {
  EXPECT_EQ(to_json({"a:1", 8, 10, {}, {}}).dump(), R"({"IP":"a:1","benchmarks":{"ram":8.0,"bandwidth":10.0}})");
}

TEST(PoolEntry, FirstEntryOfANewPoolIsNumberZero) {
  const auto result = with_entry({}, kEntry, "pool");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->number, 0);
  EXPECT_FALSE(result->replaced);
  EXPECT_EQ(result->pool["0"], to_json(kEntry));
}

TEST(PoolEntry, NewAddressGetsTheNextNumberAndTheOthersStayAsTheyWere) {
  PoolEntry entry = kEntry;
  entry.ip = "10.0.0.3:8080";
  const auto result = with_entry(kTwoNodes, entry, "pool");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->number, 2);
  auto others = result->pool;
  others.erase("2");
  EXPECT_EQ(others.dump(), nlohmann::ordered_json::parse(kTwoNodes).dump());
}

TEST(PoolEntry, SameAddressGetsNewNumbersAndKeepsItsOtherKeys) {
  const auto result = with_entry(kTwoNodes, kEntry, "pool");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->number, 1);
  EXPECT_TRUE(result->replaced);
  EXPECT_EQ(result->pool["1"].dump(),
            R"({"name":"attic","IP":"10.0.0.2:8080","benchmarks":)"
            R"({"reliability":0.9,"ram":7.988,"bandwidth":941.2,"latency":0.1235,"compute":123.5}})");
  EXPECT_EQ(result->pool["0"].dump(), nlohmann::ordered_json::parse(kTwoNodes)["0"].dump());
}

TEST(PoolEntry, BrokenPoolIsRefusedWithTheFileTheKeyAndWhatWasExpected) {
  const Status status = with_entry(R"({"0": {"IP": "a:1", "benchmarks": {"ram": 8}}})", kEntry, "pool.json").status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_EQ(status.message(), "pool.json.0.benchmarks: no \"bandwidth\"; expected its bandwidth, in Mbps");
}

TEST(PoolEntry, BadAddressOrNumberIsInvalid) {
  const auto refused = [](const PoolEntry& entry) {
    EXPECT_EQ(with_entry({}, entry, "pool").status().code(), Code::kInvalid);
  };
  refused({"nowhere", 1, 1, {}, {}});
  refused({"a:1", 0, 1, {}, {}});
  refused({"a:1", 1, -1, {}, {}});
  refused({"a:1", 1, 1, 0.0, {}});
  refused({"a:1", 1e30, 1, {}, {}});
  refused({"a:1", 1, 1, {}, std::numeric_limits<double>::infinity()});
}

using PoolFileTest = test::FolderTest;

TEST_F(PoolFileTest, FileAndItsFolderAreMadeAndASecondWriteReplacesTheEntry) {
  const fs::path path = folder_ / "node_data" / "node_configs.json";
  ASSERT_TRUE(write_entry(path, kEntry).ok());
  ASSERT_TRUE(write_entry(path, {"10.0.0.3:1", 1, 1, {}, {}}).ok());
  const auto again = write_entry(path, {"10.0.0.2:8080", 3, 4, {}, {}});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->replaced);
  const auto pool = nlohmann::json::parse(read_file(path).value());
  EXPECT_EQ(pool.size(), 2);
  EXPECT_EQ(pool["0"]["benchmarks"]["ram"], 3);
  EXPECT_EQ(pool["1"]["IP"], "10.0.0.3:1");
}

TEST_F(PoolFileTest, BrokenFileIsLeftAsItIs) {
  const fs::path path = folder_ / "pool.json";
  ASSERT_TRUE(write_file_atomically(path, std::string_view("{\"0\": ")).ok());
  EXPECT_EQ(write_entry(path, kEntry).status().code(), Code::kInvalid);
  EXPECT_EQ(read_file(path).value(), "{\"0\": ");
}

}  // namespace
}  // namespace ravnest::plan
