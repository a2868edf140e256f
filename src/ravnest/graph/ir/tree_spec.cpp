#include "ravnest/graph/ir/tree_spec.h"

#include <nlohmann/json.hpp>

#include "ravnest/base/json.h"

namespace ravnest::ir {
namespace {

using nlohmann::json;

Result<TreeSpec> from_json(const json& node) {
  if (!node.is_object() || !node.contains("type") || !node.contains("children_spec") ||
      !node["children_spec"].is_array())
    return corrupt("tree spec: expected an object with type and children_spec");
  TreeSpec spec;
  if (node["type"].is_string()) spec.type = node["type"].get<std::string>();
  if (node.contains("context") && node["context"].is_string()) spec.context = node["context"].get<std::string>();
  if (spec.is_leaf() && !node["children_spec"].empty()) return corrupt("tree spec: a leaf has children");
  for (const json& child : node["children_spec"]) {
    Result<TreeSpec> parsed = from_json(child);
    if (!parsed.ok()) return parsed;
    spec.children.push_back(std::move(*parsed));
  }
  return spec;
}

json to_json(const TreeSpec& spec) {
  json children = json::array();
  for (const TreeSpec& child : spec.children) children.push_back(to_json(child));
  json node = {{"children_spec", std::move(children)}};
  node["type"] = spec.is_leaf() ? json(nullptr) : json(spec.type);
  node["context"] = spec.is_leaf() ? json(nullptr) : json(spec.context);
  return node;
}

}  // namespace

Result<TreeSpec> parse_tree_spec(std::string_view text) {
  const Result<json> document = parse_json(text, "tree spec");
  if (!document.ok()) return document.status();
  if (!document->is_array() || document->size() != 2) return corrupt("tree spec: expected [version, tree]");
  if ((*document)[0] != 1) return unsupported("tree spec version ", (*document)[0].dump(), "; version 1 is known");
  return from_json((*document)[1]);
}

std::string to_text(const TreeSpec& spec) { return json::array({1, to_json(spec)}).dump(); }

int leaf_count(const TreeSpec& spec) {
  if (spec.is_leaf()) return 1;
  int count = 0;
  for (const TreeSpec& child : spec.children) count += leaf_count(child);
  return count;
}

TreeSpec tuple_of(std::vector<TreeSpec> children) { return {"builtins.tuple", "null", std::move(children)}; }

TreeSpec positional_call(int count) {
  return tuple_of({tuple_of(std::vector<TreeSpec>(count)), TreeSpec{"builtins.dict", "[]", {}}});
}

Result<std::vector<std::string>> dict_keys(const TreeSpec& spec) {
  const Result<json> keys = parse_json(spec.context, "keys of a dict in a tree spec");
  if (!keys.ok()) return keys.status();
  if (!keys->is_array() || keys->size() != spec.children.size()) return corrupt("tree spec: keys and children differ");
  std::vector<std::string> names;
  for (const json& key : *keys) {
    if (!key.is_string()) return unsupported("tree spec: dict key ", key.dump(), " is not a string");
    names.push_back(key.get<std::string>());
  }
  return names;
}

}  // namespace ravnest::ir
