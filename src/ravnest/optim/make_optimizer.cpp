#include <algorithm>
#include <set>

#include "ravnest/optim/native.h"
#include "ravnest/optim/optimizer.h"

namespace ravnest::optim {
namespace {

// A group's own options come before those of all.
Result<Options> options_of(const Rule& rule, Options common, const Options& own) {
  for (const auto& [name, value] : own) common.insert_or_assign(name, value);
  Result<Options> options = complete(rule.name, rule.options, common);
  if (options.ok() && rule.check != nullptr) {
    if (Status status = rule.check(*options); !status.ok()) return status;
  }
  return options;
}

Status disjoint(const Rule& rule, std::span<const ParameterGroup> groups) {
  std::set<std::size_t> seen;
  for (const ParameterGroup& group : groups) {
    for (const std::size_t index : group.parameters) {
      if (!seen.insert(index).second) return invalid(rule.name, ": parameter ", index, " is there twice");
    }
  }
  return {};
}

}  // namespace

std::span<const std::string_view> optimizer_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Rule& rule : rules()) all.push_back(rule.name);
    return all;
  }();
  return names;
}

Result<std::unique_ptr<Optimizer>> make_optimizer(std::string_view name, const Options& options,
                                                  std::vector<ParameterGroup> groups) {
  const auto rule = std::ranges::find_if(rules(), [&](const Rule& each) { return same_name(each.name, name); });
  if (rule == rules().end()) return invalid("there is no optimizer ", name, "; there are ", listed(optimizer_names()));
  const bool everything = groups.empty();
  if (everything) groups.emplace_back();
  if (Status status = disjoint(*rule, groups); !status.ok()) return status;
  for (ParameterGroup& group : groups) {
    Result<Options> complete_options = options_of(*rule, options, group.options);
    if (!complete_options.ok()) return complete_options.status();
    group.options = std::move(complete_options).value();
  }
  return std::unique_ptr<Optimizer>(std::make_unique<NativeOptimizer>(*rule, std::move(groups), everything));
}

}  // namespace ravnest::optim
