#include "ravnest/checkpoint/groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "ravnest/base/printable.h"

namespace ravnest::checkpoint {
namespace {

// The parts that have an optimizer have the same groups, by number.
bool have_same_groups(const std::vector<const Part*>& parts) {
  return std::ranges::all_of(parts, [&](const Part* part) {
    return std::ranges::equal(part->optimizer.groups, parts[0]->optimizer.groups, {}, &OptimizerGroup::options,
                              &OptimizerGroup::options);
  });
}

// For each group of the part the one that it goes to, which is made where there is none of these options. Groups of one
// part stay apart, even with the same options: the user made two of them.
std::vector<std::size_t> places_of(const Part& part, std::vector<OptimizerGroup>& merged, bool by_number) {
  std::vector<std::size_t> places;
  std::set<std::size_t> used;
  for (std::size_t i = 0; i < part.optimizer.groups.size(); ++i) {
    const optim::Options& options = part.optimizer.groups[i].options;
    std::size_t place = by_number ? i : 0;
    while (place < merged.size() && (used.contains(place) || merged[place].options != options)) ++place;
    if (place == merged.size()) merged.push_back({options, {}});
    used.insert(place);
    places.push_back(place);
  }
  return places;
}

void sort_by_model(const std::vector<std::string>& order, std::vector<OptimizerGroup>& groups) {
  std::map<std::string_view, std::size_t> rank;
  for (const std::string& key : order) rank.emplace(key, rank.size());
  for (OptimizerGroup& group : groups) {
    std::ranges::stable_sort(group.parameters, {}, [&](const std::string& name) {
      const auto found = rank.find(name);
      return found == rank.end() ? rank.size() : found->second;
    });
  }
}

}  // namespace

Result<std::vector<OptimizerGroup>> merged_groups(const std::vector<Part>& parts, const SameTensors& same) {
  std::vector<const Part*> with_optimizer;
  for (const Part& part : parts) {
    if (!part.optimizer.name.empty()) with_optimizer.push_back(&part);
  }
  if (with_optimizer.empty()) return std::vector<OptimizerGroup>();
  const bool by_number = have_same_groups(with_optimizer);
  std::vector<OptimizerGroup> merged;
  std::map<std::string, std::size_t> group_of;
  for (const Part* part : with_optimizer) {
    const std::vector<std::size_t> places = places_of(*part, merged, by_number);
    for (std::size_t i = 0; i < places.size(); ++i) {
      for (const std::string& parameter : part->optimizer.groups[i].parameters) {
        const std::string& name = same.first_name(parameter);
        const auto [there, is_new] = group_of.emplace(name, places[i]);
        if (!is_new && there->second != places[i])
          return corrupt("parameter \"", printable(name), "\" is in two of the optimizer's groups, of which ",
                         part->name, " has one");
        if (is_new) merged[places[i]].parameters.push_back(name);
      }
    }
  }
  sort_by_model(parts[0].order, merged);
  return merged;
}

}  // namespace ravnest::checkpoint
