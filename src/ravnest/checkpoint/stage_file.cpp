#include "ravnest/checkpoint/stage_file.h"

#include <limits>
#include <set>

#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"
#include "ravnest/checkpoint/metadata.h"
#include "ravnest/checkpoint/tied_names.h"

namespace ravnest::checkpoint {
namespace {

using nlohmann::json;

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

int small_number(const Field& field) {
  const std::int64_t value = field.integer();
  if (value < 0 || value > std::numeric_limits<int>::max()) field.fail("the number is out of range");
  return static_cast<int>(value);
}

SavedStage read_facts(const archive::Safetensors& contents) {
  const json facts = metadata_json(contents, kStage);
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
  saved.updates = count_of(field["updates"]);
  saved.nodes = string_list(field["nodes"]);
  const json order = metadata_json(contents, kOrder);
  saved.order = string_list(Field(order, kOrder));
  return saved;
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
    const json aliases = metadata_json(contents, kAliases);
    add_aliases(Field(aliases, kAliases), saved.weights);
    sort_by(saved.order, saved.weights);
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
