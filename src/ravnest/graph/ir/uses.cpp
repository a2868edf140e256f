#include "ravnest/graph/ir/uses.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ravnest/graph/ir/verify.h"

namespace ravnest::ir {
namespace {

bool is_stored(const Input& input) { return input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer; }

// By name, those that the training graph uses.
std::map<std::string, int> places_of_inputs(const Graph& graph) {
  std::vector<int> first(graph.values.size(), kReturned);
  std::vector<bool> used(graph.values.size(), false);
  const auto use = [&](Ref ref, int place) {
    first[ref.value] = std::min(first[ref.value], place);
    used[ref.value] = true;
  };
  for (const Operator& op : graph.operators) {
    for (const NamedArgument& input : op.inputs) for_each_ref(input.value, [&](Ref ref) { use(ref, op.place); });
  }
  for (const Argument& output : graph.outputs) for_each_ref(output, [&](Ref ref) { use(ref, kReturned); });
  std::map<std::string, int> places;
  for (const Input& input : graph.inputs) {
    if (is_stored(input) && used[input.value]) places.emplace(input.target, first[input.value]);
  }
  return places;
}

// A use under one name is a use under all names of the same tensor.
void share_among_names(const archive::NamedPayloads& weights, std::map<std::string, int>& places) {
  std::map<const archive::Storage*, std::vector<std::size_t>> by_storage;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].second.storage != nullptr) by_storage[weights[i].second.storage.get()].push_back(i);
  }
  std::map<std::string, int> shared = places;
  for (const auto& entry : by_storage) {
    for (const std::size_t a : entry.second) {
      for (const std::size_t b : entry.second) {
        const auto found = places.find(weights[b].first);
        if (a == b || found == places.end() || !archive::same_tensor(weights[a].second, weights[b].second)) continue;
        const auto own = shared.emplace(weights[a].first, found->second).first;
        own->second = std::min(own->second, found->second);
      }
    }
  }
  places = std::move(shared);
}

bool kept_elsewhere(const Model& stage, const std::string& name) {
  if (!stage.stage) return false;
  const auto tied = stage.stage->tied.find(name);
  return tied != stage.stage->tied.end() && !tied->second.empty() && tied->second.front() != stage.stage->index;
}

std::vector<std::string> names_of(const archive::NamedPayloads& weights) {
  std::vector<std::string> names;
  for (const auto& entry : weights) names.push_back(entry.first);
  return names;
}

}  // namespace

std::vector<std::pair<std::string, int>> first_uses(const Model& stage) {
  std::map<std::string, int> places = places_of_inputs(stage.train);
  share_among_names(stage.weights, places);
  std::vector<std::string> own = names_of(stage.weights);
  const std::vector<std::string> state_dict = stage.stage ? stage.stage->state_dict : own;
  std::ranges::sort(own);

  std::vector<std::pair<std::string, int>> uses;
  // Of the name before; nothing where that one is kept by another stage.
  std::optional<int> before;
  if (!stage.stage || stage.stage->index == 0) before = 0;
  for (const std::string& name : state_dict) {
    const bool kept = std::ranges::binary_search(own, name) && !kept_elsewhere(stage, name);
    const auto used = places.find(name);
    if (!kept) {
      before.reset();
    } else if (used != places.end()) {
      before = used->second;
    }
    if (before) uses.emplace_back(name, *before);
  }
  for (const Input& input : stage.train.inputs) {
    if (input.kind != InputKind::kBuffer || input.persistent) continue;
    if (const auto used = places.find(input.target); used != places.end()) uses.emplace_back(*used);
  }
  return uses;
}

}  // namespace ravnest::ir
