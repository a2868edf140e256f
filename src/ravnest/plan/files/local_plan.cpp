#include "ravnest/plan/files/local_plan.h"

#include <algorithm>

#include "ravnest/base/printable.h"
#include "ravnest/identity/identity.h"
#include "ravnest/net/resolve.h"
#include "ravnest/plan/files/folder.h"
#include "ravnest/plan/files/write.h"

namespace ravnest::plan {
namespace {

namespace fs = std::filesystem;

std::vector<int> nodes_of(const plan::Plan& plan) {
  std::vector<int> nodes;
  for (const plan::PlannedCluster& cluster : plan.clusters) {
    for (const plan::PlannedStage& stage : cluster.stages) nodes.push_back(stage.node);
  }
  std::ranges::sort(nodes);
  return nodes;
}

std::string names(const std::vector<int>& nodes) {
  std::vector<std::string> written;
  for (const int node : nodes) written.push_back(plan::node_name(node));
  return join(written);
}

bool is_on_this_machine(const plan::Plan& plan, int node, const Wait& wait) {
  const Address at = listens_at(plan, node);
  const auto found = resolve(at.host, at.port, Lookup::kToListen, wait);
  return found.ok() && std::ranges::any_of(*found, is_here);
}

}  // namespace

Result<PlanHere> read_plan_here(const fs::path& node_data) {
  auto read = plan::read_plan(node_data);
  if (!read.ok()) return read.status();
  return PlanHere{node_data, std::move(read).value()};
}

Result<int> node_named(const plan::Plan& plan, std::string_view name) {
  const std::vector<int> nodes = nodes_of(plan);
  for (const int node : nodes) {
    if (name == plan::node_name(node) || name == std::to_string(node)) return node;
  }
  for (std::size_t i = 0; i < plan.pool.nodes.size(); ++i) {
    const int node = static_cast<int>(i);
    if (name != plan::node_name(node) && name != std::to_string(node)) continue;
    const bool spare = std::ranges::find(plan.spares, node) != plan.spares.end();
    return not_found(plan::describe(plan.pool, node),
                     spare
                         ? " is a spare of this plan: the pool trains faster without it, so there is nothing to start "
                           "here. To use it all the same, plan again with use_all=True (`ravnest plan --use-all`)"
                         : " has no part in this plan: it is not used, and there is nothing to start here",
                     "; the plan's nodes are ", names(nodes));
  }
  return not_found("the plan has no part for a node \"", printable(name), "\"; its nodes are ", names(nodes));
}

fs::path folder_of(const PlanHere& here, int node) {
  const int cluster = here.plan.place_of(node).first;
  return here.node_data / text("cluster_", cluster) / to_string(here.plan.pool.nodes[node].address);
}

std::vector<int> nodes_with_identity(const PlanHere& here) {
  std::vector<int> nodes = nodes_of(here.plan);
  std::erase_if(nodes, [&](int node) { return !plan::is_there(folder_of(here, node) / identity::kCertificateFile); });
  return nodes;
}

Address listens_at(const plan::Plan& plan, int node) {
  const plan::PoolNode& own = plan.pool.nodes[node];
  return own.bind.value_or(own.address);
}

Result<int> asker_of(const PlanHere& here, int asked, const std::string& named) {
  if (!named.empty()) return node_named(here.plan, named);
  const std::vector<int> can = nodes_with_identity(here);
  if (can.empty())
    return not_found("no node's identity is in ", here.node_data.string(),
                     "; ask from where the plan was made, or from where a node was unpacked");
  const auto other = std::ranges::find_if(can, [&](int node) { return node != asked; });
  return other == can.end() ? asked : *other;
}

Result<std::vector<int>> nodes_to_examine(const PlanHere& here, const std::string& named, const Wait& wait) {
  if (!named.empty()) {
    const auto node = node_named(here.plan, named);
    if (!node.ok()) return node.status();
    return std::vector{*node};
  }
  std::vector<int> can = nodes_with_identity(here);
  if (can.size() == 1) return can;
  if (can.empty())
    return not_found("no node's identity is in ", here.node_data.string(),
                     "; unpack this machine's package here (`ravnest unpack node_3.ravnest`), or name the folder with "
                     "--node-data");
  const std::string all = names(can);
  std::erase_if(can, [&](int node) { return !is_on_this_machine(here.plan, node, wait); });
  if (can.empty())
    return not_found("all addresses of ", all, " belong to other machines: run this there, or choose with --node");
  return can;
}

}  // namespace ravnest::plan
