#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"
#include "ravnest/base/printable.h"
#include "ravnest/report/summary.h"

namespace ravnest::report {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"root", "stem", "leaf", "solo"};
constexpr std::size_t kLongestName = 200;

// The numbers, once for both ways.
template <class Summary, class Visit>
void for_each_number(Summary& summary, Visit&& visit) {
  visit("running_s", summary.running_s);
  visit("forward_s", summary.forward_s);
  visit("backward_s", summary.backward_s);
  visit("update_s", summary.update_s);
  visit("passes", summary.passes);
  visit("updates", summary.updates);
  visit("staleness_mean", summary.staleness_mean);
  visit("staleness_most", summary.staleness_most);
  visit("versions_most", summary.versions_most);
  visit("bytes_sent", summary.bytes_sent);
  visit("bytes_received", summary.bytes_received);
  visit("tensor_bytes_sent", summary.tensor_bytes_sent);
  visit("round_trip_s", summary.round_trip_s);
}

double written(double value) { return std::isfinite(value) && value > 0 ? value : 0; }
std::uint64_t written(std::uint64_t value) { return std::min<std::uint64_t>(value, INT64_MAX); }

void read(const Field& field, double& value) {
  value = field.number();
  if (!std::isfinite(value) || value < 0) field.fail("expected a number of at least 0");
}

void read(const Field& field, std::uint64_t& value) {
  if (field.integer() < 0) field.fail("expected a number of at least 0");
  value = static_cast<std::uint64_t>(field.integer());
}

std::string read_name(const Field& field) {
  std::string name = field.string();
  if (name.empty() || name.size() > kLongestName || name != printable(name)) field.fail("expected a node's name");
  return name;
}

std::string read_role(const Field& field) {
  std::string role = field.string();
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) field.fail(text("expected one of ", join(kRoles)));
  return role;
}

}  // namespace

double busy_share(const NodeSummary& node) {
  const double share = (node.forward_s + node.backward_s + node.update_s) / node.running_s;
  return node.running_s > 0 && std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
}

std::string encode(const NodeSummary& summary) {
  nlohmann::ordered_json json;
  json["node"] = printable(summary.node);
  json["role"] = printable(summary.role);
  for_each_number(summary, [&](std::string_view key, auto value) { json[std::string(key)] = written(value); });
  return json.dump();
}

Result<NodeSummary> decode_node_summary(std::string_view json, std::string_view what) {
  if (json.size() > kLongestSummary) return corrupt(what, ": ", json.size(), " bytes are too many for a summary");
  const Result<nlohmann::json> parsed = parse_json(json, what);
  if (!parsed.ok()) return parsed.status();
  try {
    const Field root(*parsed, std::string(what));
    NodeSummary summary;
    summary.node = read_name(root["node"]);
    summary.role = read_role(root["role"]);
    for_each_number(summary, [&](std::string_view key, auto& value) { read(root[key], value); });
    return summary;
  } catch (const DecodeError& error) {
    return error.status;
  }
}

}  // namespace ravnest::report
