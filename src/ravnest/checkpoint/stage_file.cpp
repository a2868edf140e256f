#include "ravnest/checkpoint/stage_file.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "ravnest/base/file.h"
#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"
#include "ravnest/base/printable.h"

namespace ravnest::checkpoint {
namespace {

using nlohmann::json;
using Aliases = std::map<std::string, std::string>;

constexpr int kVersion = 1;
constexpr const char* kStage = "ravnest.stage";
constexpr const char* kOrder = "ravnest.order";
constexpr const char* kAliases = "ravnest.aliases";

Status check(const SavedStage& saved) {
  if (saved.cluster < 0 || saved.stage < 0 || saved.stage >= saved.stages)
    return invalid("stage ", saved.stage, " of ", saved.stages, " of cluster ", saved.cluster, " cannot be");
  if (!saved.nodes.empty() && saved.nodes.size() != static_cast<std::size_t>(saved.stages))
    return invalid(saved.nodes.size(), " nodes for ", saved.stages, " stages");
  if (saved.updates > std::numeric_limits<std::int64_t>::max()) return invalid(saved.updates, " updates cannot be");
  const std::set<std::string_view> keys(saved.order.begin(), saved.order.end());
  if (keys.size() != saved.order.size()) return invalid("a key stands twice in the model's order");
  std::set<std::string_view> names;
  for (const auto& [name, payload] : saved.weights) {
    if (!names.insert(name).second) return invalid("weight \"", printable(name), "\" is there twice");
  }
  return {};
}

// The tensors, each once, and the other names that they have.
std::pair<archive::NamedPayloads, Aliases> without_aliases(const archive::NamedPayloads& weights) {
  archive::NamedPayloads tensors;
  Aliases aliases;
  std::multimap<const archive::Storage*, std::size_t> on_storage;
  for (const auto& [name, payload] : weights) {
    const auto [first, last] = on_storage.equal_range(payload.storage.get());
    const auto twin = std::find_if(first, last, [&, &own = payload](const auto& entry) {
      return archive::same_tensor(tensors[entry.second].second, own);
    });
    if (twin != last) {
      aliases.emplace(name, tensors[twin->second].first);
      continue;
    }
    on_storage.emplace(payload.storage.get(), tensors.size());
    tensors.emplace_back(name, payload);
  }
  return {std::move(tensors), std::move(aliases)};
}

int small_number(const Field& field) {
  const std::int64_t value = field.integer();
  if (value < 0 || value > std::numeric_limits<int>::max()) field.fail("the number is out of range");
  return static_cast<int>(value);
}

std::vector<std::string> strings(const Field& field) {
  std::vector<std::string> list;
  field.for_each([&](const Field& item) { list.push_back(item.string()); });
  return list;
}

json document(const archive::Safetensors& contents, const char* key) {
  const auto found = contents.metadata.find(key);
  if (found == contents.metadata.end()) throw DecodeError{corrupt(key, " is not in the file's metadata")};
  Result<json> parsed = parse_json(found->second, key);
  if (!parsed.ok()) throw DecodeError{parsed.status()};
  return std::move(parsed).value();
}

SavedStage read_facts(const archive::Safetensors& contents) {
  const json facts = document(contents, kStage);
  const Field field(facts, kStage);
  if (field["version"].integer() != kVersion)
    field.refuse(text("version ", field["version"].integer(), "; this release of ravnest reads ", kVersion));
  SavedStage saved;
  saved.plan = field["plan"].string();
  saved.run = field["run"].string();
  saved.node = field["node"].string();
  saved.cluster = small_number(field["cluster"]);
  saved.stage = small_number(field["stage"]);
  saved.stages = small_number(field["stages"]);
  const std::int64_t updates = field["updates"].integer();
  if (updates < 0) field["updates"].fail("a negative number");
  saved.updates = static_cast<std::uint64_t>(updates);
  saved.nodes = strings(field["nodes"]);
  const json order = document(contents, kOrder);
  saved.order = strings(Field(order, kOrder));
  return saved;
}

void add_aliases(const archive::Safetensors& contents, archive::NamedPayloads& weights) {
  std::map<std::string, archive::Payload> by_name(weights.begin(), weights.end());
  const json aliases = document(contents, kAliases);
  Field(aliases, kAliases).for_each_member([&](const std::string& alias, const Field& field) {
    const auto tensor = by_name.find(field.string());
    if (tensor == by_name.end()) field.fail("names a tensor that the file does not have");
    if (by_name.contains(alias)) field.fail("is a tensor of the file itself");
    weights.emplace_back(alias, tensor->second);
  });
}

void in_order(const std::vector<std::string>& order, archive::NamedPayloads& weights) {
  std::map<std::string_view, std::size_t> rank;
  for (const std::string& key : order) rank.emplace(key, rank.size());
  const auto place = [&](const auto& weight) {
    const auto found = rank.find(weight.first);
    return found == rank.end() ? rank.size() : found->second;
  };
  std::stable_sort(weights.begin(), weights.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

}  // namespace

std::filesystem::path stage_file(const std::filesystem::path& trained, int cluster, std::string_view node_name) {
  return trained / text("cluster_", cluster) / text(node_name, ".safetensors");
}

Status save_stage(const std::filesystem::path& path, const SavedStage& saved) {
  const std::string context = text("cannot save ", path.string());
  if (Status status = check(saved); !status.ok()) return status.with_context(context);
  auto [tensors, aliases] = without_aliases(saved.weights);
  archive::Safetensors contents{{}, std::move(tensors)};
  try {
    contents.metadata = {{kStage, json{{"version", kVersion},
                                       {"plan", saved.plan},
                                       {"run", saved.run},
                                       {"node", saved.node},
                                       {"cluster", saved.cluster},
                                       {"stage", saved.stage},
                                       {"stages", saved.stages},
                                       {"updates", saved.updates},
                                       {"nodes", saved.nodes}}
                                      .dump()},
                         {kOrder, json(saved.order).dump()},
                         {kAliases, json(aliases).dump()}};
  } catch (const json::type_error&) {
    return invalid(context, ": a name in it is not UTF-8");
  }
  std::error_code failure;
  std::filesystem::create_directories(folder_of(path), failure);
  if (failure) return system_failure("create", folder_of(path), failure.value());
  return archive::write_safetensors(path, contents);
}

bool is_saved_stage(const archive::Safetensors& contents) { return contents.metadata.contains(kStage); }

Result<SavedStage> saved_stage(archive::Safetensors contents, const std::filesystem::path& path) {
  if (!is_saved_stage(contents))
    return invalid(path.string(), " is not a stage that a node saved: its metadata has no ", kStage);
  try {
    SavedStage saved = read_facts(contents);
    saved.weights = std::move(contents.tensors);
    add_aliases(contents, saved.weights);
    in_order(saved.order, saved.weights);
    if (Status status = check(saved); !status.ok()) return corrupt(path.string(), ": ", printable(status.message()));
    return saved;
  } catch (const DecodeError& error) {
    return Status(error.status.code(), printable(error.status.message())).with_context(path.string());
  }
}

Result<SavedStage> load_stage(const std::filesystem::path& path) {
  Result<archive::Safetensors> contents = archive::read_safetensors(path);
  if (!contents.ok()) return contents.status();
  return saved_stage(std::move(*contents), path);
}

}  // namespace ravnest::checkpoint
