#include "ravnest/plan/pool/pool.h"

#include <gtest/gtest.h>

namespace ravnest::plan {
namespace {

Status refusal(std::string_view json) { return decode_pool(json, "pool.json").status(); }

TEST(Pool, EveryKeyIsRead) {
  const Result<Pool> pool = decode_pool(R"({
    "1": {"IP": "[::1]:8081", "benchmarks": {"ram": 16, "bandwidth": 1000}},
    "0": {"IP": "10.0.0.5:8080", "name": "attic", "bind": "0.0.0.0:9000",
          "benchmarks": {"ram": 7.5, "bandwidth": 10, "compute": 120, "latency": 0, "reliability": 0.9}}})",
                                        "pool.json");
  ASSERT_TRUE(pool.ok()) << pool.status();
  ASSERT_EQ(pool->nodes.size(), 2U);
  const PoolNode& node = pool->nodes[0];
  EXPECT_EQ(text(node.address), "10.0.0.5:8080");
  EXPECT_EQ(text(*node.bind), "0.0.0.0:9000");
  EXPECT_EQ(node.label, "attic");
  EXPECT_EQ(node.ram_gb, 7.5);
  EXPECT_EQ(node.bandwidth_mbps, 10);
  EXPECT_EQ(node.compute_gflops, 120);
  EXPECT_EQ(node.latency_ms, 0);
  EXPECT_EQ(node.reliability, 0.9);
  EXPECT_EQ(text(pool->nodes[1].address), "[::1]:8081");
  EXPECT_FALSE(pool->nodes[1].compute_gflops);
  EXPECT_TRUE(pool->notes.empty());
}

TEST(Pool, WhatIsWrongIsSaidWithTheFileTheKeyAndWhatWasExpected) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"([])", R"(pool.json: expected an object with the keys "0" to "n-1", one per node, got [])"},
      {R"({})", R"(pool.json: the pool has no nodes; expected at least the key "0")"},
      {R"({"1": {}})", R"(pool.json: no key "0"; the 1 node must have the key "0")"},
      {R"({"0": {"IP": "a:1", "benchmarks": {"ram": 1, "bandwidth": 1}}, "2": {}})",
       R"(pool.json: no key "1"; the 2 nodes must have the keys "0" to "1")"},
      {R"({"0": 5})", R"(pool.json.0: expected {"IP": "host:port", "benchmarks": {...}}, got 5)"},
      {R"({"0": {"benchmarks": {"ram": 1, "bandwidth": 1}}})", R"(pool.json.0: no "IP"; expected "host:port")"},
      {R"({"0": {"IP": 8080, "benchmarks": {}}})", R"(pool.json.0.IP: expected "host:port", got 8080)"},
      {R"({"0": {"IP": "a:1"}})", R"(pool.json.0: no "benchmarks"; expected {"ram": GB, "bandwidth": Mbps})"},
      {R"({"0": {"IP": "a:1", "benchmarks": {"bandwidth": 1}}})",
       R"(pool.json.0.benchmarks: no "ram"; expected the memory it may use, in GB)"},
      {R"({"0": {"IP": "a:1", "benchmarks": {"ram": 0, "bandwidth": 1}}})",
       R"(pool.json.0.benchmarks.ram: expected a positive number (GB), got 0)"},
      {R"({"0": {"IP": "a:1", "benchmarks": {"ram": "8", "bandwidth": 1}}})",
       R"(pool.json.0.benchmarks.ram: expected a positive number (GB), got "8")"},
      {R"({"0": {"IP": "a:1", "benchmarks": {"ram": 8, "bandwidth": -1}}})",
       R"(pool.json.0.benchmarks.bandwidth: expected a positive number (Mbps), got -1)"},
      {R"({"0": {"IP": "a:1", "benchmarks": {"ram": 8e40, "bandwidth": 1}}})",
       R"(pool.json.0.benchmarks.ram: expected a number from 0.000001 to 1000000000 GB, got 8e+40)"},
      {R"({"0": {"IP": "a:1", "benchmarks": {"ram": 8, "bandwidth": 1e-300}}})",
       R"(pool.json.0.benchmarks.bandwidth: expected a number from 0.000001 to 1000000000 Mbps, got 1e-300)"},
      {R"({"0": {"IP": "a:1", "benchmarks": {"ram": 8, "bandwidth": 1, "latency": -1}}})",
       R"(pool.json.0.benchmarks.latency: expected a number that is not negative (ms), got -1)"},
      {R"({"0": {"IP": "a:1", "benchmarks": {"ram": 8, "bandwidth": 1, "reliability": 1.5}}})",
       R"(pool.json.0.benchmarks.reliability: expected a chance from 0 to 1, got 1.5)"},
      {R"({"0": {"IP": "a:1", "benchmarks": {"ram": 8, "bandwidth": 1}}, "1": {"IP": "a:1", "benchmarks": {}}})",
       R"(pool.json.1.IP: a:1 is the address of pool.json.0.IP already; every node needs one of its own)"},
      {R"({"0": {"IP": "0.0.0.0:1", "benchmarks": {"ram": 8, "bandwidth": 1}},
           "1": {"IP": "127.0.0.1:1", "benchmarks": {"ram": 8, "bandwidth": 1}}})",
       R"(pool.json.1.IP: 127.0.0.1:1 is the address of pool.json.0.IP already; every node needs one of its own)"},
      {R"({"0": {}, "0": {}})", R"(pool.json: the key "0" stands twice in one object)"},
  };
  for (const auto& [json, message] : cases) {
    const Status status = refusal(json);
    EXPECT_EQ(status.code(), Code::kInvalid) << json;
    EXPECT_EQ(status.message(), message) << json;
  }
}

TEST(Pool, BadPortsAndWhatIsNoJsonAreRefused) {
  for (const char* ip : {"a", "a:", "a:0", "a:65536", "a:80x", ":80"}) {
    const Status status = refusal(text(R"({"0": {"IP": ")", ip, R"(", "benchmarks": {"ram": 8, "bandwidth": 1}}})"));
    EXPECT_EQ(status.code(), Code::kInvalid) << ip;
    EXPECT_NE(status.message().find("pool.json.0.IP: "), std::string::npos) << status;
    EXPECT_NE(status.message().find("HOST:PORT"), std::string::npos) << status;
  }
  EXPECT_NE(refusal("{\"0\": ").message().find("not valid JSON"), std::string::npos);
}

TEST(Pool, AKeyThatIsNotKnownIsNoted) {
  const Result<Pool> pool =
      decode_pool(R"({"0": {"IP": "a:1", "benchmarks": {"ram": 8, "bandwidth": 1, "computee": 3}}})", "pool.json");
  ASSERT_TRUE(pool.ok());
  ASSERT_EQ(pool->notes.size(), 1U);
  EXPECT_EQ(pool->notes[0], "pool.json.0.benchmarks.computee is not a known key and is ignored");
}

TEST(Pool, AnAddressThatOthersCannotDialIsNoted) {
  const Result<Pool> pool = decode_pool(R"({"0": {"IP": "0.0.0.0:1", "benchmarks": {"ram": 8, "bandwidth": 1}},
      "1": {"IP": "10.0.0.7:1", "benchmarks": {"ram": 8, "bandwidth": 1}}})",
                                        "pool.json");
  ASSERT_TRUE(pool.ok());
  ASSERT_EQ(pool->notes.size(), 1U);
  EXPECT_NE(pool->notes[0].find("own machine only"), std::string::npos);
}

TEST(Pool, AMissingFileSaysWhatToWrite) {
  const Status status = read_pool("/nowhere/node_configs.json").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("\"benchmarks\""), std::string::npos) << status;
}

}  // namespace
}  // namespace ravnest::plan
