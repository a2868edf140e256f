#include "ravnest/checkpoint/fuse.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ravnest/archive/pickle/state_dict.h"
#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/words/few.h"
#include "ravnest/checkpoint/stage_file.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "trained_state_dict";

struct Found {
  std::string file;  // the name, without folder
  SavedStage saved;
};

fs::path folder_with_stages(const FuseOptions& options) {
  return stage_file(options.trained, options.cluster, "any").parent_path();
}

Result<std::vector<fs::path>> candidates(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".safetensors") && !name.starts_with('.') && entry->is_regular_file(ignored))
      paths.push_back(entry->path());
  }
  if (failure && failure != std::errc::no_such_file_or_directory)
    return system_failure("read the folder", folder, failure.value());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<std::vector<Found>> find_stages(const FuseOptions& options) {
  const fs::path folder = folder_with_stages(options);
  const Result<std::vector<fs::path>> paths = candidates(folder);
  if (!paths.ok()) return paths.status();
  std::vector<Found> found;
  for (const fs::path& path : *paths) {
    Result<archive::Safetensors> contents = archive::read_safetensors(path);
    if (!contents.ok()) return contents.status();
    if (!is_saved_stage(*contents)) continue;
    Result<SavedStage> saved = saved_stage(std::move(*contents), path);
    if (!saved.ok()) return saved.status();
    found.push_back({printable(path.filename().string()), std::move(*saved)});
  }
  if (found.empty())
    return not_found("no stage of cluster ", options.cluster, " is saved in ", folder.string(),
                     "; train with save=True, then copy each node's file from its machine into ", folder.string(), "/");
  return found;
}

// All have one value of `what`; else who has which.
Status check_agreement(const std::vector<Found>& found, const fs::path& folder, std::string_view what,
                       const std::function<std::string(const SavedStage&)>& value) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const Found& each : found) groups[value(each.saved)].push_back(each.file);
  if (groups.size() == 1) return {};
  std::vector<std::string> sides;
  for (const auto& [shown, files] : groups)
    sides.push_back(text(few(files), files.size() == 1 ? " is of " : " are of ", what, " ", printable(shown)));
  return invalid("the stages in ", folder.string(), " do not belong together: ", few(sides),
                 "; keep those that were saved together and put the others elsewhere");
}

std::string shortened(const std::vector<std::string>& order) { return text(order.size(), " keys: ", few(order)); }

Status check_together(const std::vector<Found>& found, const FuseOptions& options) {
  const fs::path folder = folder_with_stages(options);
  for (const Found& each : found) {
    if (each.saved.cluster != options.cluster)
      return invalid((folder / each.file).string(), " is of cluster ", each.saved.cluster, ", not ", options.cluster,
                     "; put it into the folder of its own cluster");
  }
  Status status = check_agreement(found, folder, "plan", [](const SavedStage& s) { return s.plan; });
  if (status.ok()) status = check_agreement(found, folder, "run", [](const SavedStage& s) { return s.run; });
  if (status.ok())
    status = check_agreement(found, folder, "update", [](const SavedStage& s) { return text(s.updates); });
  if (status.ok())
    status = check_agreement(found, folder, "a number of stages that is",
                             [](const SavedStage& s) { return text(s.stages); });
  const bool one_order = std::all_of(found.begin(), found.end(),
                                     [&](const Found& each) { return each.saved.order == found[0].saved.order; });
  if (status.ok() && !one_order)
    status = check_agreement(found, folder, "a model of", [](const SavedStage& s) { return shortened(s.order); });
  if (status.ok() && !one_order)
    return invalid("the stages in ", folder.string(), " have the model's keys in two orders");
  return status;
}

// By stage, each once.
Result<std::map<int, const Found*>> complete(const std::vector<Found>& found, const FuseOptions& options) {
  const fs::path folder = folder_with_stages(options);
  std::map<int, const Found*> by_stage;
  std::vector<std::string> nodes;
  for (const Found& each : found) {
    const auto [there, is_new] = by_stage.emplace(each.saved.stage, &each);
    if (!is_new)
      return invalid(there->second->file, " and ", each.file, " in ", folder.string(), " are both stage ",
                     each.saved.stage, "; keep one of them");
    if (!each.saved.nodes.empty()) nodes = each.saved.nodes;
  }
  const auto stages = static_cast<std::size_t>(found[0].saved.stages);
  if (by_stage.size() == stages) return by_stage;
  const std::size_t all_missing = stages - by_stage.size();
  std::vector<std::string> missing;
  for (int stage = 0; missing.size() < std::min<std::size_t>(all_missing, 8); ++stage) {
    if (by_stage.contains(stage)) continue;
    missing.push_back(nodes.empty() ? text("stage ", stage)
                                    : text("stage ", stage, " (", printable(nodes[stage]), ".safetensors)"));
  }
  return not_found(all_missing, " of ", stages, " stages of cluster ", options.cluster, " ",
                   all_missing == 1 ? "is" : "are", " missing: ", few(missing, all_missing),
                   "; copy them from their machines into ", folder.string(), "/");
}

bool same_values(const archive::Payload& a, const archive::Payload& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.storage->bytes.size() == b.storage->bytes.size() &&
         (a.storage->bytes.empty() ||
          std::memcmp(a.storage->bytes.data(), b.storage->bytes.data(), a.storage->bytes.size()) == 0);
}

struct Merged {
  archive::Payload payload;
  const Found* from;
};

// A weight that an earlier stage had already must be the same here; this stage's other names for it, if any, then go
// with the earlier one's tensor, so that what is tied stays tied.
Status merge_stage(const Found& found, std::map<std::string, Merged>& merged) {
  std::map<const archive::Storage*, archive::Payload> earlier;
  for (const auto& [name, payload] : found.saved.weights) {
    const auto known = merged.find(name);
    if (known == merged.end()) continue;
    const auto& [other, from] = known->second;
    if (!same_values(payload, other))
      return corrupt("weight \"", printable(name), "\" is not the same in ", from->file, " (stage ", from->saved.stage,
                     ") and ", found.file, " (stage ", found.saved.stage, "), which share it; save the stages again");
    earlier.emplace(payload.storage.get(), other);
  }
  for (const auto& [name, payload] : found.saved.weights) {
    const auto known = earlier.find(payload.storage.get());
    merged.emplace(name, Merged{known == earlier.end() ? payload : known->second, &found});
  }
  return {};
}

Result<archive::NamedPayloads> merge(const std::map<int, const Found*>& stages) {
  std::map<std::string, Merged> merged;
  for (const auto& [stage, found] : stages) {
    if (Status status = merge_stage(*found, merged); !status.ok()) return status;
  }
  archive::NamedPayloads weights;
  std::vector<std::string> missing;
  for (const std::string& key : stages.begin()->second->saved.order) {
    auto weight = merged.extract(key);
    if (weight.empty())
      missing.push_back(printable(key));
    else
      weights.emplace_back(key, std::move(weight.mapped().payload));
  }
  if (!missing.empty())
    return corrupt("no stage has ", few(missing), ", which the model's state dict has; save the stages again");
  std::vector<std::string> strange;
  for (const auto& [name, weight] : merged) strange.push_back(text(printable(name), " (", weight.from->file, ")"));
  if (!strange.empty()) return corrupt("the model's state dict has no ", few(strange), "; save the stages again");
  return weights;
}

// A failure of the disk names the file already; all others get it here.
template <class Write>
Status write_to(AtomicFile& file, const fs::path& path, const Write& write) {
  Status disk;
  const Status status = write([&](ByteSpan bytes) { return disk = file.append(bytes); });
  return disk.ok() ? status.with_context(text("cannot write ", path.string())) : disk;
}

Result<Fused> write_fused(const archive::NamedPayloads& weights, const FuseOptions& options) {
  Fused fused{.state_dict = options.trained / text(kName, ".pt"), .safetensors = {}, .tensors = weights.size()};
  Result<AtomicFile> state_dict = AtomicFile::create(fused.state_dict);
  if (!state_dict.ok()) return state_dict.status();
  Status status = write_to(*state_dict, fused.state_dict,
                           [&](const archive::Sink& sink) { return archive::write_state_dict(weights, kName, sink); });
  if (!status.ok()) return status;
  fused.bytes = state_dict->position();
  if (!options.safetensors) {
    status = state_dict->commit();
    return status.ok() ? Result<Fused>(fused) : status;
  }
  fused.safetensors = options.trained / text(kName, ".safetensors");
  Result<AtomicFile> safetensors = AtomicFile::create(fused.safetensors);
  if (!safetensors.ok()) return safetensors.status();
  // Tools look for the format, which says that it came from torch.
  status = write_to(*safetensors, fused.safetensors, [&](const archive::Sink& sink) {
    return archive::write_safetensors({{{"format", "pt"}}, weights}, sink);
  });
  if (status.ok()) status = safetensors->commit();
  if (status.ok()) status = state_dict->commit();
  return status.ok() ? Result<Fused>(fused) : status;
}

}  // namespace

Result<Fused> fuse(const FuseOptions& options) {
  if (options.cluster < 0) return invalid("there is no cluster ", options.cluster, "; the first one is 0");
  const Result<std::vector<Found>> found = find_stages(options);
  if (!found.ok()) return found.status();
  if (Status status = check_together(*found, options); !status.ok()) return status;
  const Result<std::map<int, const Found*>> stages = complete(*found, options);
  if (!stages.ok()) return stages.status();
  const Result<archive::NamedPayloads> weights = merge(*stages);
  if (!weights.ok()) return weights.status();
  return write_fused(*weights, options);
}

}  // namespace ravnest::checkpoint
