#include "ravnest/plan/pool/pool.h"

#include <map>
#include <set>

#include "ravnest/base/file.h"
#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"
#include "ravnest/base/printable.h"
#include "ravnest/plan/pool/expect.h"

namespace ravnest::plan {
namespace {

Address address(const Field& field) {
  if (!field.json().is_string()) refuse(field, "\"host:port\"");
  Result<Address> parsed = parse_address(field.string());
  if (!parsed.ok()) throw DecodeError{parsed.status().with_context(field.where())};
  return *parsed;
}

class PoolDecoder {
 public:
  Pool decode(const Field& root) {
    expect_object(root, R"(an object with the keys "0" to "n-1", one per node)");
    const std::size_t count = root.json().size();
    if (count == 0)
      throw DecodeError{invalid(root.where(), ": the pool has no nodes; expected at least the key \"0\"")};
    for (std::size_t id = 0; id < count; ++id) {
      const std::string key = std::to_string(id);
      if (!root.json().contains(key)) {
        throw DecodeError{invalid(root.where(), ": no key \"", key, "\"; the ", count,
                                  count == 1 ? " node must have the key \"0\""
                                             : text(" nodes must have the keys \"0\" to \"", count - 1, "\""))};
      }
      add(root[key]);
    }
    warn_of_unreachable();
    return std::move(pool_);
  }

 private:
  void add(const Field& field) {
    expect_object(field, R"({"IP": "host:port", "benchmarks": {...}})");
    note_unknown(field, {"IP", "benchmarks", "name", "bind"});
    PoolNode node;
    const Field ip = expect_member(field, "IP", "\"host:port\"");
    node.address = address(ip);
    // 0.0.0.0 is dialled as 127.0.0.1: two nodes with these hosts and one port are one address.
    if (const auto [taken, is_new] = taken_.emplace(dialled(node.address), ip.where()); !is_new)
      throw DecodeError{invalid(ip.where(), ": ", node.address, " is the address of ", taken->second,
                                " already; every node needs one of its own")};
    if (const auto bind = field.optional("bind")) node.bind = address(*bind);
    if (const auto label = field.optional("name")) {
      if (!label->json().is_string() || label->string().empty()) refuse(*label, "a name, not empty");
      node.label = printable(label->string());
      if (const auto [taken, is_new] = labels_.emplace(node.label, label->where()); !is_new)
        throw DecodeError{invalid(label->where(), ": \"", node.label, "\" is the name at ", taken->second, " already")};
    }
    const Field benchmarks = expect_member(field, "benchmarks", R"({"ram": GB, "bandwidth": Mbps})");
    expect_object(benchmarks, R"({"ram": GB, "bandwidth": Mbps})");
    note_unknown(benchmarks, {"ram", "process", "bandwidth", "compute", "latency", "reliability"});
    node.ram_gb = expect_number(expect_member(benchmarks, "ram", "the memory it may use, in GB"), kRamGb);
    node.bandwidth_mbps =
        expect_number(expect_member(benchmarks, "bandwidth", "its bandwidth, in Mbps"), kBandwidthMbps);
    if (const auto process = benchmarks.optional("process")) node.process_gb = expect_number(*process, kProcessGb);
    if (const auto compute = benchmarks.optional("compute"))
      node.compute_gflops = expect_number(*compute, kComputeGflops);
    if (const auto latency = benchmarks.optional("latency")) node.latency_ms = expect_number(*latency, kLatencyMs);
    if (const auto reliability = benchmarks.optional("reliability")) {
      const double value = reliability->json().is_number() ? reliability->json().get<double>() : -1;
      if (!(value >= 0 && value <= 1)) refuse(*reliability, "a chance from 0 to 1");
      node.reliability = value;
    }
    pool_.nodes.push_back(std::move(node));
  }

  void note_unknown(const Field& field, const std::set<std::string_view>& known) {
    field.for_each_member([&](const std::string& key, const Field& value) {
      if (!known.contains(key))
        pool_.notes.push_back(text(printable(value.where()), " is not a known key and is ignored"));
    });
  }

  void warn_of_unreachable() {
    std::string everywhere;
    std::string elsewhere;
    for (const PoolNode& node : pool_.nodes) {
      const Address reached = dialled(node.address);
      if (reached != node.address) everywhere = to_string(node.address);
      const bool local = reached.host.starts_with("127.") || reached.host == "::1" || reached.host == "localhost";
      if (!local) elsewhere = to_string(node.address);
    }
    if (!everywhere.empty() && !elsewhere.empty())
      pool_.notes.push_back(
          text(everywhere, " can be dialled on its own machine only; if ", elsewhere,
               " is another machine, give an address as \"IP\" that it can reach and 0.0.0.0 as \"bind\""));
  }

  Pool pool_;
  std::map<Address, std::string> taken_;
  std::map<std::string, std::string> labels_;
};

}  // namespace

std::string node_name(int node) { return text("node_", node); }

std::string describe(const Pool& pool, int node) {
  const PoolNode& each = pool.nodes[node];
  return text(node_name(node), " (", each.address, each.label.empty() ? "" : ", ", each.label, ")");
}

Result<Pool> decode_pool(std::string_view json, std::string_view file) {
  const Result<nlohmann::ordered_json> parsed = parse_json_by_hand(json, file);
  if (!parsed.ok()) return invalid(parsed.status().message());
  const nlohmann::json pool = *parsed;
  try {
    return PoolDecoder().decode(Field(pool, std::string(file)));
  } catch (const DecodeError& error) {
    return invalid(error.status.message());
  }
}

Result<Pool> read_pool(const std::filesystem::path& file) {
  const Result<std::string> content = read_file(file);
  if (!content.ok()) {
    if (content.status().code() != Code::kNotFound) return content.status();
    return not_found("there is no pool file ", file.string(),
                     R"(; write one such as {"0": {"IP": "0.0.0.0:8080", "benchmarks": {"ram": 8, "bandwidth": 10}}, )",
                     R"("1": {"IP": "0.0.0.0:8081", "benchmarks": {"ram": 8, "bandwidth": 10}}})");
  }
  return decode_pool(*content, file.string());
}

}  // namespace ravnest::plan
