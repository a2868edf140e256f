#include <map>

#include "ravnest/base/printable.h"
#include "ravnest/base/words/few.h"
#include "ravnest/checkpoint/assemble.h"
#include "ravnest/checkpoint/tied_names.h"

namespace ravnest::checkpoint {
namespace {

Result<archive::NamedPayloads> chosen(const archive::NamedPayloads& from, const std::set<std::string>& names,
                                      std::string_view kind) {
  archive::NamedPayloads found;
  std::set<std::string> missing = names;
  for (const auto& [name, payload] : from) {
    if (!names.contains(name)) continue;
    found.emplace_back(name, payload);
    missing.erase(name);
  }
  if (missing.empty()) return found;
  std::vector<std::string> shown;
  for (const std::string& name : missing) shown.push_back(printable(name));
  return not_found("the checkpoint has no ", kind, " ", few(shown), ": it is of another model");
}

// By the name that the whole's optimizer has for a parameter: the name that it has among these weights.
std::map<std::string, std::string> names_within(const Whole& whole, const std::set<std::string>& weights) {
  const Untied untied = without_aliases(whole.weights);
  std::map<std::string, std::string> names;
  for (const std::string& key : whole.order) {
    const auto alias = untied.aliases.find(key);
    if (weights.contains(key)) names.emplace(alias == untied.aliases.end() ? key : alias->second, key);
  }
  return names;
}

OptimizerPart chosen_state(const OptimizerPart& whole, const std::map<std::string, std::string>& names) {
  OptimizerPart part{.name = whole.name, .groups = {}, .tensors = {}, .values = {}};
  for (const OptimizerGroup& group : whole.groups) {
    part.groups.push_back({group.options, {}});
    for (const std::string& parameter : group.parameters) {
      if (const auto name = names.find(parameter); name != names.end())
        part.groups.back().parameters.push_back(name->second);
    }
  }
  for (const auto& [parameter, tensors] : whole.tensors) {
    if (const auto name = names.find(parameter); name != names.end()) part.tensors.emplace(name->second, tensors);
  }
  for (const auto& [parameter, values] : whole.values) {
    if (const auto name = names.find(parameter); name != names.end()) part.values.emplace(name->second, values);
  }
  return part;
}

}  // namespace

Result<Part> select(const Whole& whole, const std::set<std::string>& weights, const std::set<std::string>& buffers) {
  Part part;
  part.run = whole.run;
  part.plan = whole.plan;
  part.updates = whole.updates;
  part.order = whole.order;
  Result<archive::NamedPayloads> found = chosen(whole.weights, weights, "weight");
  if (!found.ok()) return found.status();
  part.weights = std::move(*found);
  found = chosen(whole.buffers, buffers, "buffer");
  if (!found.ok()) return found.status();
  part.buffers = std::move(*found);
  part.optimizer = chosen_state(whole.optimizer, names_within(whole, weights));
  return part;
}

}  // namespace ravnest::checkpoint
