// The shape of nested arguments and results: pytree specs as `.pt2` archives store them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::ir {

struct TreeSpec {
  std::string type;     // "builtins.tuple", "builtins.dict", ...; empty for a leaf
  std::string context;  // as stored: JSON of the dict's keys, "null" for a tuple
  std::vector<TreeSpec> children;
  bool is_leaf() const { return type.empty(); }
};

Result<TreeSpec> parse_tree_spec(std::string_view text);
std::string to_text(const TreeSpec& spec);

int leaf_count(const TreeSpec& spec);
TreeSpec tuple_of(std::vector<TreeSpec> children);
// (args, kwargs) of a call with `count` positional tensors.
TreeSpec positional_call(int count);
// The keys of a dict node, in order. Keys that are not strings are an error.
Result<std::vector<std::string>> dict_keys(const TreeSpec& spec);

}  // namespace ravnest::ir
