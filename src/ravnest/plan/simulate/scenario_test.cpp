#include "ravnest/plan/simulate/scenario.h"

#include <gmock/gmock.h>

#include "ravnest/base/file.h"

namespace ravnest::plan {
namespace {

using testing::ElementsAre;

Result<Scenario> decoded(std::string_view json) { return decode_scenario(json, "s.json", "."); }

// With these events after three nodes at the start.
std::string with_events(std::string_view events) {
  return text(R"({"nodes": [{"count": 3, "ram": 8, "bandwidth": 100}], "events": )", events, "}");
}

TEST(Scenario, GroupsOptionsAndEventsAreRead) {
  const Result<Scenario> scenario = decoded(R"({
    "nodes": [{"count": 2, "ram": 16, "bandwidth": 100, "compute": 200, "latency": 20}, {"ram": 4, "bandwidth": 10}],
    "events": [{"join": {"count": 2, "ram": 2, "bandwidth": 5}, "name": "old laptops"}, {"leave": [3]},
               {"link": {"nodes": [0, 4], "bandwidth": 5, "latency": 80}}, {"slow": {"nodes": [1], "factor": 0.25}},
               {"reduce_factor": 50}],
    "balance": "memory", "min_cluster_size": 1, "seed": 7, "optimizer_state": 1, "reduce_factor": 20})");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  ASSERT_EQ(scenario->pool.nodes.size(), 3U);
  EXPECT_EQ(scenario->pool.nodes[1].ram_gb, 16);
  EXPECT_EQ(scenario->pool.nodes[1].compute_gflops, 200);
  EXPECT_EQ(scenario->pool.nodes[1].latency_ms, 20);
  EXPECT_EQ(scenario->pool.nodes[2].bandwidth_mbps, 10);
  EXPECT_FALSE(scenario->pool.nodes[2].compute_gflops.has_value());
  ASSERT_EQ(scenario->events.size(), 5U);
  std::vector<std::string> names;
  for (const Event& event : scenario->events) names.push_back(event.name);
  EXPECT_THAT(names, ElementsAre("old laptops", "node_3 leaves", "link of node_0 and node_4: 5 Mbps, 80 ms",
                                 "node_1 computes 0.25 times as fast", "averaging every 50 updates"));
  EXPECT_EQ(std::get<Join>(scenario->events[0].change).nodes.size(), 2U);
  EXPECT_THAT(std::get<Leave>(scenario->events[1].change).nodes, ElementsAre(3));
  EXPECT_EQ(std::get<LinkChange>(scenario->events[2].change).latency_ms, 80);
  EXPECT_EQ(std::get<ComputeChange>(scenario->events[3].change).factor, 0.25);
  EXPECT_EQ(std::get<AveragingChange>(scenario->events[4].change).updates_per_round, 50);
  EXPECT_EQ(scenario->form.balance, Balance::kMemory);
  EXPECT_EQ(scenario->form.min_cluster_size, 1);
  EXPECT_EQ(scenario->form.seed, 7U);
  EXPECT_EQ(scenario->form.training.optimizer_state, 1);
  EXPECT_EQ(scenario->form.training.updates_per_round, 20);
}

TEST(Scenario, SpreadStaysInItsBoundsAndFollowsTheSeed) {
  const auto drawn = [](int seed) {
    return *decoded(text(R"({"nodes": [{"count": 200, "ram": 10, "bandwidth": 100, "compute": 50, "latency": 3,
                                        "spread": 0.2}], "seed": )",
                         seed, "}"));
  };
  const Scenario first = drawn(1);
  double least = 10;
  double most = 10;
  for (const PoolNode& node : first.pool.nodes) {
    least = std::min(least, node.ram_gb);
    most = std::max(most, node.ram_gb);
    EXPECT_GE(node.compute_gflops, 40);
    EXPECT_LE(node.compute_gflops, 60);
    EXPECT_EQ(node.latency_ms, 3);
  }
  EXPECT_GE(least, 8);
  EXPECT_LT(least, 8.2);
  EXPECT_LE(most, 12);
  EXPECT_GT(most, 11.8);
  const Scenario again = drawn(1);
  const Scenario other = drawn(2);
  EXPECT_EQ(again.pool.nodes[17].bandwidth_mbps, first.pool.nodes[17].bandwidth_mbps);
  EXPECT_NE(other.pool.nodes[17].bandwidth_mbps, first.pool.nodes[17].bandwidth_mbps);
}

TEST(Scenario, APoolFileIsLookedForBesideTheScenario) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "scenario_pool";
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(write_file_atomically(folder / "lab.json",
                                    R"({"0": {"IP": "10.0.0.1:80", "benchmarks": {"ram": 8, "bandwidth": 10}}})")
                  .ok());
  ASSERT_TRUE(write_file_atomically(folder / "s.json", R"({"pool": "lab.json"})").ok());
  const Result<Scenario> scenario = read_scenario(folder / "s.json");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(text(scenario->pool.nodes.at(0).address), "10.0.0.1:80");
  EXPECT_TRUE(scenario->events.empty());
}

TEST(Scenario, AMissingFileIsNotFound) {
  const Result<Scenario> scenario = read_scenario("no/such.json");
  EXPECT_EQ(scenario.status().code(), Code::kNotFound);
  EXPECT_EQ(scenario.status().message(), "there is no scenario file no/such.json; `ravnest simulate --help` shows one");
}

TEST(Scenario, EachMistakeIsNamedWithItsPlaceAndWhatWasExpected) {
  struct Case {
    std::string json;
    std::string message;
  };
  const std::string group = R"({"count": nodes, "ram": GB, "bandwidth": Mbps})";
  const std::string event = R"(one of "join", "leave", "link", "slow" and "reduce_factor", and a "name" if you like)";
  const std::vector<Case> cases = {
      {"[1]", R"(s.json: expected an object with "nodes" or "pool", and "events", got [1])"},
      {"{}", R"(s.json: no "nodes" and no "pool"; expected a list of groups such as [)" + group +
                 "], or the path of a pool file"},
      {R"({"nodes": [], "pool": "x"})", R"(s.json: both "nodes" and "pool" are given; expected one of them)"},
      {R"({"nodes": []})", "s.json.nodes: expected a list of groups such as " + group + ", got []"},
      {R"({"pool": 3})", "s.json.pool: expected the path of a pool file, got 3"},
      {R"({"nodes": [7]})", "s.json.nodes[0]: expected " + group + ", got 7"},
      {R"({"nodes": [{"bandwidth": 1}]})", R"(s.json.nodes[0]: no "ram"; expected the memory of each node, in GB)"},
      {R"({"nodes": [{"ram": -1, "bandwidth": 1}]})", "s.json.nodes[0].ram: expected a positive number (GB), got -1"},
      {R"({"nodes": [{"ram": 1, "bandwidth": 1, "count": 0}]})",
       "s.json.nodes[0].count: expected a whole number from 1 to 10000, got 0"},
      {R"({"nodes": [{"ram": 1, "bandwidth": 1, "count": 2.5}]})",
       "s.json.nodes[0].count: expected a whole number from 1 to 10000, got 2.5"},
      {R"({"nodes": [{"ram": 1, "bandwidth": 1, "count": 9000}, {"ram": 1, "bandwidth": 1, "count": 1001}]})",
       "s.json.nodes[1]: with these 1001 nodes there would be more than 10000, which is the most that is simulated"},
      {R"({"nodes": [{"ram": 1, "bandwidth": 1, "spread": 1}]})",
       "s.json.nodes[0].spread: expected a share from 0 to less than 1, got 1"},
      {R"({"nodes": [{"ram": 1, "bandwidth": 1, "latency": -2}]})",
       "s.json.nodes[0].latency: expected a number that is not negative (ms), got -2"},
      {R"({"nodes": [{"ram": 1, "bandwith": 1}]})",
       "s.json.nodes[0].bandwith is not a known key; expected count, ram, process, bandwidth, compute, latency, "
       "spread"},
      {R"({"nodes": [{"ram": 1, "bandwidth": 1}], "batch": 3})",
       "s.json.batch is not a known key; expected nodes, pool, events, balance, min_cluster_size, seed, "
       "optimizer_state, reduce_factor"},
      {R"({"nodes": [{"ram": 1, "bandwidth": 1}], "balance": "fair"})",
       R"(s.json.balance: expected "params", "time" or "memory", got "fair")"},
      {R"({"nodes": [{"ram": 1, "bandwidth": 1}], "min_cluster_size": 0})",
       "s.json.min_cluster_size: expected a whole number from 1 to 10000, got 0"},
      {R"({"nodes": [{"ram": 1, "bandwidth": 1}], "seed": -1})",
       "s.json.seed: expected a whole number from 0 to 9223372036854775807, got -1"},
      {R"({"nodes": [{"ram": 1, "bandwidth": 1}], "optimizer_state": -1})",
       "s.json.optimizer_state: expected a number that is not negative (bytes per byte of weights), got -1"},
      {with_events("{}"), R"(s.json.events: expected a list of events, such as [{"leave": [3]}], got {})"},
      {with_events(R"([{"name": "x"}])"), "s.json.events[0]: expected " + event + R"(, got {"name":"x"})"},
      {with_events(R"([{"leave": [0], "reduce_factor": 2}])"),
       "s.json.events[0]: expected " + event + R"(, got {"leave":[0],"reduce_factor":2})"},
      {with_events(R"([{"explode": 1}])"),
       "s.json.events[0].explode is not a known key; expected join, leave, link, slow, reduce_factor, name"},
      {with_events(R"([{"leave": [3]}])"), "s.json.events[0].leave[0]: expected a whole number from 0 to 2, got 3"},
      {with_events(R"([{"leave": 1}])"), "s.json.events[0].leave: expected a list of node ids, such as [0, 3], got 1"},
      {with_events(R"([{"leave": [1]}, {"slow": {"nodes": [1], "factor": 2}}])"),
       "s.json.events[1].slow.nodes[0]: node_1 has left already"},
      {with_events(R"([{"leave": [1, 1]}])"), "s.json.events[0].leave[1]: node_1 is named twice"},
      {with_events(R"([{"leave": [0, 1, 2]}])"),
       "s.json.events[0].leave: no node would be left; expected at least one to stay"},
      {with_events(R"([{"link": {"bandwidth": 3}}])"),
       R"(s.json.events[0].link: no "nodes"; expected a list of node ids, such as [0, 3])"},
      {with_events(R"([{"link": {"nodes": [0]}}])"),
       R"(s.json.events[0].link: expected a "bandwidth", a "latency", or both, got {"nodes":[0]})"},
      {with_events(R"([{"link": {"nodes": [0], "bandwidth": 0}}])"),
       "s.json.events[0].link.bandwidth: expected a positive number (Mbps), got 0"},
      {with_events(R"([{"slow": {"nodes": [0]}}])"),
       R"(s.json.events[0].slow: no "factor"; expected what their compute is multiplied by)"},
      {with_events(R"([{"slow": {"nodes": [0], "factor": 0}}])"),
       "s.json.events[0].slow.factor: expected a positive number, got 0"},
      {with_events(R"([{"reduce_factor": 0}])"),
       "s.json.events[0].reduce_factor: expected a whole number from 1 to 1000000000, got 0"},
      {with_events(R"([{"leave": [0], "name": ""}])"), R"(s.json.events[0].name: expected a name, not empty, got "")"},
      {with_events(R"([{"join": {"ram": 1}}])"),
       R"(s.json.events[0].join: no "bandwidth"; expected each node's bandwidth, in Mbps)"},
  };
  for (const Case& each : cases) {
    const Result<Scenario> scenario = decoded(each.json);
    EXPECT_EQ(scenario.status().code(), Code::kInvalid) << each.json;
    EXPECT_EQ(scenario.status().message(), each.message) << each.json;
  }
}

TEST(Scenario, WhatIsNotJsonAndAKeyThatStandsTwiceAreRefused) {
  EXPECT_EQ(decoded("{").status().code(), Code::kInvalid);
  EXPECT_EQ(decoded(R"({"seed": 1, "seed": 2})").status().code(), Code::kInvalid);
}

TEST(Scenario, AMistakeInThePoolFileIsNamedWithBothFiles) {
  const Result<Scenario> scenario = decoded(R"({"pool": "no/such.json"})");
  EXPECT_THAT(scenario.status().message(), testing::StartsWith("s.json.pool: there is no pool file ./no/such.json; "));
}

}  // namespace
}  // namespace ravnest::plan
