// The names that a node's files have in `node_data/`, and which names from outside may be used as such.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::plan {

inline constexpr std::string_view kPlanFile = "plan.json";

// Whether the name is `node_` and a number without leading zeros.
bool is_node_name(std::string_view name);

// "nodes/node_3.json"
std::string node_file(std::string_view node_name);

// One part of a path that is safe to create: text, not hidden, without slashes, backslashes and control characters.
bool is_plain_component(std::string_view name);

// Where the node keeps its files, below node_data and without a trailing slash: "cluster_0/0.0.0.0:8080". From the last
// two parts of `template_path` in the text of nodes/node_3.json. kCorrupt where the text is not JSON of that node or
// the parts are not a cluster's name and a plain one.
Result<std::string> node_folder(std::string_view node_json, std::string_view node_name);

}  // namespace ravnest::plan
