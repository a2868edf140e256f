#include "ravnest/plan/simulate/scenario.h"

#include <algorithm>
#include <random>
#include <set>

#include "ravnest/base/file.h"
#include "ravnest/base/json.h"
#include "ravnest/base/printable.h"
#include "ravnest/plan/pool/expect.h"

namespace ravnest::plan {
namespace {

constexpr std::string_view kGroup = R"({"count": nodes, "ram": GB, "bandwidth": Mbps})";
constexpr std::string_view kIds = "a list of node ids, such as [0, 3]";

std::string plural(std::size_t count, std::string_view verb) {
  return text(count, count == 1 ? " node " : " nodes ", verb, count == 1 ? "s" : "");
}

// "node_3", "node_3 and node_4", "node_3 and 6 others".
std::string named(const std::vector<int>& nodes) {
  if (nodes.size() == 1) return node_name(nodes[0]);
  if (nodes.size() == 2) return text(node_name(nodes[0]), " and ", node_name(nodes[1]));
  return text(node_name(nodes[0]), " and ", nodes.size() - 1, " others");
}

class ScenarioDecoder {
 public:
  explicit ScenarioDecoder(const std::filesystem::path& folder) : folder_(folder) {}

  Scenario decode(const Field& root) {
    expect_object(root, R"(an object with "nodes" or "pool", and "events")");
    expect_only(root,
                {"nodes", "pool", "events", "balance", "min_cluster_size", "seed", "optimizer_state", "reduce_factor"});
    read_options(root);
    random_.seed(scenario_.form.seed);
    read_nodes(root);
    if (const auto events = root.optional("events")) {
      if (!events->json().is_array()) refuse(*events, R"(a list of events, such as [{"leave": [3]}])");
      events->for_each([&](const Field& event) { scenario_.events.push_back(read_event(event)); });
    }
    return std::move(scenario_);
  }

 private:
  void read_options(const Field& root) {
    FormOptions& form = scenario_.form;
    if (const auto balance = root.optional("balance")) {
      const Result<Balance> parsed =
          balance->json().is_string() ? parse_balance(balance->string()) : Result<Balance>(invalid(""));
      if (!parsed.ok()) refuse(*balance, R"("params", "time" or "memory")");
      form.balance = *parsed;
    }
    if (const auto size = root.optional("min_cluster_size"))
      form.min_cluster_size = static_cast<int>(expect_whole(*size, 1, kMostSimulatedNodes));
    if (const auto seed = root.optional("seed"))
      form.seed = static_cast<std::uint64_t>(expect_whole(*seed, 0, INT64_MAX));
    if (const auto state = root.optional("optimizer_state")) {
      form.training.optimizer_state = expect_number(*state, kOptimizerState);
    }
    if (const auto factor = root.optional("reduce_factor")) form.training.updates_per_round = updates(*factor);
  }

  static int updates(const Field& field) { return static_cast<int>(expect_whole(field, 1, 1'000'000'000)); }

  void read_nodes(const Field& root) {
    const auto groups = root.optional("nodes");
    const auto pool = root.optional("pool");
    if (groups && pool)
      throw DecodeError{invalid(root.where(), R"(: both "nodes" and "pool" are given; expected one of them)")};
    if (!groups && !pool)
      throw DecodeError{invalid(root.where(), R"(: no "nodes" and no "pool"; expected a list of groups such as [)",
                                kGroup, R"(], or the path of a pool file)")};
    if (pool) {
      if (!pool->json().is_string() || pool->string().empty()) refuse(*pool, "the path of a pool file");
      Result<Pool> read = read_pool(folder_ / pool->string());
      if (!read.ok()) throw DecodeError{read.status().with_context(pool->where())};
      scenario_.pool = std::move(read).value();
    } else {
      if (!groups->json().is_array() || groups->json().empty())
        refuse(*groups, text("a list of groups such as ", kGroup));
      groups->for_each([&](const Field& group) {
        for (PoolNode& node : draw(group)) scenario_.pool.nodes.push_back(std::move(node));
        present_.assign(scenario_.pool.nodes.size(), true);
      });
    }
    present_.assign(scenario_.pool.nodes.size(), true);
  }

  // From 0 up to 1; not by a standard distribution, which differs from one library to the next.
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double spread(double value, double share) { return value * (1 + share * (2 * uniform() - 1)); }

  std::vector<PoolNode> draw(const Field& group) {
    expect_object(group, kGroup);
    expect_only(group, {"count", "ram", "process", "bandwidth", "compute", "latency", "spread"});
    PoolNode like;
    like.ram_gb = expect_number(expect_member(group, "ram", "the memory of each node, in GB"), kRamGb);
    like.bandwidth_mbps =
        expect_number(expect_member(group, "bandwidth", "each node's bandwidth, in Mbps"), kBandwidthMbps);
    if (const auto process = group.optional("process")) like.process_gb = expect_number(*process, kProcessGb);
    if (const auto compute = group.optional("compute")) like.compute_gflops = expect_number(*compute, kComputeGflops);
    if (const auto latency = group.optional("latency")) like.latency_ms = expect_number(*latency, kLatencyMs);
    double share = 0;
    if (const auto given = group.optional("spread")) {
      share = given->json().is_number() ? given->json().get<double>() : -1;
      if (!(share >= 0 && share < 1)) refuse(*given, "a share from 0 to less than 1");
    }
    const auto count = group.optional("count");
    const int nodes = count ? static_cast<int>(expect_whole(*count, 1, kMostSimulatedNodes)) : 1;
    if (static_cast<int>(present_.size()) + nodes > kMostSimulatedNodes)
      throw DecodeError{invalid(group.where(), ": with these ", nodes, " nodes there would be more than ",
                                kMostSimulatedNodes, ", which is the most that is simulated")};
    std::vector<PoolNode> made;
    for (int i = 0; i < nodes; ++i) {
      PoolNode node = like;
      node.ram_gb = spread(like.ram_gb, share);
      node.bandwidth_mbps = spread(like.bandwidth_mbps, share);
      if (node.compute_gflops) node.compute_gflops = spread(*like.compute_gflops, share);
      node.address = {text("simulated-", present_.size() + i), 8080};
      made.push_back(std::move(node));
    }
    return made;
  }

  Event read_event(const Field& field) {
    static constexpr std::string_view kExpected =
        "one of \"join\", \"leave\", \"link\", \"slow\" and \"reduce_factor\", and a \"name\" if you like";
    expect_object(field, kExpected);
    expect_only(field, {"join", "leave", "link", "slow", "reduce_factor", "name"});
    const std::size_t changes = field.json().size() - (field.json().contains("name") ? 1 : 0);
    if (changes != 1) refuse(field, kExpected);
    Event event;
    if (field.json().contains("join")) {
      read_join(field["join"], event);
    } else if (field.json().contains("leave")) {
      read_leave(field["leave"], event);
    } else if (field.json().contains("link")) {
      read_link(field["link"], event);
    } else if (field.json().contains("slow")) {
      read_slow(field["slow"], event);
    } else {
      const int every = updates(field["reduce_factor"]);
      event.name = text("averaging every ", every, every == 1 ? " update" : " updates");
      event.change = AveragingChange{every};
    }
    if (const auto own = field.optional("name")) {
      if (!own->json().is_string() || own->string().empty()) refuse(*own, "a name, not empty");
      event.name = printable(own->string());
    }
    return event;
  }

  void read_join(const Field& field, Event& event) {
    Join join{draw(field)};
    event.name = plural(join.nodes.size(), "join");
    present_.insert(present_.end(), join.nodes.size(), true);
    event.change = std::move(join);
  }

  void read_leave(const Field& field, Event& event) {
    Leave leave{ids(field)};
    for (const int node : leave.nodes) present_[node] = false;
    if (std::find(present_.begin(), present_.end(), true) == present_.end())
      throw DecodeError{invalid(field.where(), ": no node would be left; expected at least one to stay")};
    event.name = leave.nodes.size() == 1 ? text(node_name(leave.nodes[0]), " leaves") : named(leave.nodes) + " leave";
    event.change = std::move(leave);
  }

  void read_link(const Field& field, Event& event) {
    static constexpr std::string_view kExpected = R"({"nodes": [ids], "bandwidth": Mbps, "latency": ms})";
    expect_object(field, kExpected);
    expect_only(field, {"nodes", "bandwidth", "latency"});
    LinkChange change{ids(expect_member(field, "nodes", kIds)), {}, {}};
    event.name = text("link of ", named(change.nodes), ":");
    if (const auto bandwidth = field.optional("bandwidth")) {
      change.bandwidth_mbps = expect_number(*bandwidth, kBandwidthMbps);
      event.name += text(" ", *change.bandwidth_mbps, " Mbps");
    }
    if (const auto latency = field.optional("latency")) {
      change.latency_ms = expect_number(*latency, kLatencyMs);
      event.name += text(change.bandwidth_mbps ? ", " : " ", *change.latency_ms, " ms");
    }
    if (!change.bandwidth_mbps && !change.latency_ms) refuse(field, R"(a "bandwidth", a "latency", or both)");
    event.change = std::move(change);
  }

  void read_slow(const Field& field, Event& event) {
    static constexpr std::string_view kExpected = R"({"nodes": [ids], "factor": 0.25})";
    expect_object(field, kExpected);
    expect_only(field, {"nodes", "factor"});
    ComputeChange change{ids(expect_member(field, "nodes", kIds)), 1};
    change.factor = expect_number(expect_member(field, "factor", "what their compute is multiplied by"), kSpeedFactor);
    event.name = text(named(change.nodes), change.nodes.size() == 1 ? " computes " : " compute ", change.factor,
                      " times as fast");
    event.change = std::move(change);
  }

  std::vector<int> ids(const Field& field) {
    if (!field.json().is_array() || field.json().empty()) refuse(field, kIds);
    std::vector<int> nodes;
    std::set<int> seen;
    field.for_each([&](const Field& each) {
      const int node = static_cast<int>(expect_whole(each, 0, static_cast<std::int64_t>(present_.size()) - 1));
      if (!present_[node]) throw DecodeError{invalid(each.where(), ": ", node_name(node), " has left already")};
      if (!seen.insert(node).second) throw DecodeError{invalid(each.where(), ": ", node_name(node), " is named twice")};
      nodes.push_back(node);
    });
    return nodes;
  }

  const std::filesystem::path& folder_;
  Scenario scenario_;
  std::mt19937_64 random_;
  std::vector<bool> present_;  // by id, up to what is being read
};

}  // namespace

Result<Scenario> decode_scenario(std::string_view json, std::string_view file, const std::filesystem::path& folder) {
  const Result<nlohmann::ordered_json> parsed = parse_json_by_hand(json, file);
  if (!parsed.ok()) return invalid(parsed.status().message());
  const nlohmann::json scenario = *parsed;
  try {
    return ScenarioDecoder(folder).decode(Field(scenario, std::string(file)));
  } catch (const DecodeError& error) {
    return invalid(error.status.message());
  }
}

Result<Scenario> read_scenario(const std::filesystem::path& file) {
  const Result<std::string> content = read_file(file);
  if (!content.ok()) {
    if (content.status().code() != Code::kNotFound) return content.status();
    return not_found("there is no scenario file ", file.string(), "; `ravnest simulate --help` shows one");
  }
  return decode_scenario(*content, file.string(), folder_of(file));
}

}  // namespace ravnest::plan
