// A plan as it lies on this machine: all nodes are known, but only some can act from here, those whose identity is
// here too. That is all of them where the plan was made, and one where a node was unpacked.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/net/address.h"
#include "ravnest/net/socket.h"
#include "ravnest/plan/plan.h"

namespace ravnest::plan {

struct PlanHere {
  std::filesystem::path node_data;
  plan::Plan plan;
};

Result<PlanHere> read_plan_here(const std::filesystem::path& node_data);

// A node by "node_3" or "3". kNotFound, with the names there are, where the plan gives no part to such a node.
Result<int> node_named(const plan::Plan& plan, std::string_view name);

// node_data/cluster_0/10.0.0.7:8080
std::filesystem::path folder_of(const PlanHere& here, int node);
// Those that have a certificate in their folder, sound or not.
std::vector<int> nodes_with_identity(const PlanHere& here);

// Where it listens.
Address listens_at(const plan::Plan& plan, int node);

// In whose name `asked` is to be asked: the one that is named, otherwise the first other node whose identity is here,
// otherwise the asked one itself. kNotFound where none is here.
Result<int> asker_of(const PlanHere& here, int asked, const std::string& named);

// The nodes to examine: the one that is named; the only one whose identity is here; otherwise those of them that listen
// on this machine. kNotFound where there are none.
Result<std::vector<int>> nodes_to_examine(const PlanHere& here, const std::string& named, const Wait& wait);

}  // namespace ravnest::plan
