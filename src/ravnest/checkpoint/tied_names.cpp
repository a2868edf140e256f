#include "ravnest/checkpoint/tied_names.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ravnest::checkpoint {

Untied without_aliases(const archive::NamedPayloads& weights) {
  Untied untied;
  std::multimap<const archive::Storage*, std::size_t> on_storage;
  for (const auto& [name, payload] : weights) {
    const auto [first, last] = on_storage.equal_range(payload.storage.get());
    const auto twin = std::find_if(first, last, [&, &own = payload](const auto& entry) {
      return archive::same_tensor(untied.tensors[entry.second].second, own);
    });
    if (twin != last) {
      untied.aliases.emplace(name, untied.tensors[twin->second].first);
      continue;
    }
    on_storage.emplace(payload.storage.get(), untied.tensors.size());
    untied.tensors.emplace_back(name, payload);
  }
  return untied;
}

void add_aliases(const Field& aliases, archive::NamedPayloads& weights) {
  const std::map<std::string, archive::Payload> by_name(weights.begin(), weights.end());
  aliases.for_each_member([&](const std::string& alias, const Field& field) {
    const auto tensor = by_name.find(field.string());
    if (tensor == by_name.end()) field.fail("names a tensor that the file does not have");
    if (by_name.contains(alias)) field.fail("is a tensor of the file itself");
    weights.emplace_back(alias, tensor->second);
  });
}

void sort_by(const std::vector<std::string>& order, archive::NamedPayloads& weights) {
  std::map<std::string_view, std::size_t> rank;
  for (const std::string& key : order) rank.emplace(key, rank.size());
  const auto place = [&](const auto& weight) {
    const auto found = rank.find(weight.first);
    return found == rank.end() ? rank.size() : found->second;
  };
  std::stable_sort(weights.begin(), weights.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

}  // namespace ravnest::checkpoint
