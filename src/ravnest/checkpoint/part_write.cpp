#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/base/file.h"
#include "ravnest/base/folder.h"
#include "ravnest/base/printable.h"
#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/option_json.h"
#include "ravnest/checkpoint/part_format.h"
#include "ravnest/checkpoint/tied_names.h"
#include "ravnest/identity/sha256.h"

namespace ravnest::checkpoint {
namespace {

using nlohmann::json;

// The tensors of the file, under names that are there once, and which of them are not the model's.
class FileTensors {
 public:
  explicit FileTensors(const Part& part, const Untied& untied) : tensors_(untied.tensors) {
    for (const auto& [name, payload] : part.weights) taken_.insert(name);
    for (const auto& [name, payload] : part.buffers)
      kinds_[kBufferKind][add(text(kBufferKind, '.', name), payload)] = name;
    for (const auto& [parameter, tensors] : part.optimizer.tensors) add_all(kOptimizerKind, parameter, tensors);
    for (const auto& [record, tensors] : part.record_tensors) add_all(kRecordKind, record, tensors);
  }

  const archive::NamedPayloads& tensors() const { return tensors_; }
  const json& kinds() const { return kinds_; }

 private:
  void add_all(const char* kind, const std::string& owner, const archive::NamedPayloads& tensors) {
    for (const auto& [name, payload] : tensors)
      kinds_[kind][add(text(kind, '.', owner, '.', name), payload)] = json::array({owner, name});
  }

  std::string add(std::string name, const archive::Payload& payload) {
    while (!taken_.insert(name).second) name.insert(0, 1, '_');
    tensors_.emplace_back(name, payload);
    return name;
  }

  std::set<std::string> taken_;
  archive::NamedPayloads tensors_;
  json kinds_ = {{kBufferKind, json::object()}, {kOptimizerKind, json::object()}, {kRecordKind, json::object()}};
};

json parameters_to_json(const archive::NamedPayloads& weights) {
  json object = json::object();
  for (const auto& [name, payload] : weights) {
    if (payload.is_parameter) object[name] = payload.requires_grad;
  }
  return object;
}

json optimizer_to_json(const OptimizerPart& optimizer) {
  json groups = json::array();
  for (const OptimizerGroup& group : optimizer.groups)
    groups.push_back({{"options", options_to_json(group.options)}, {"parameters", group.parameters}});
  json values = json::object();
  for (const auto& [parameter, each] : optimizer.values) values[parameter] = options_to_json(each);
  return {{"name", optimizer.name}, {"groups", std::move(groups)}, {"values", std::move(values)}};
}

json pieces_to_json(const std::map<std::string, Piece>& pieces) {
  json object = json::object();
  for (const auto& [name, piece] : pieces)
    object[name] = {{"shape", piece.shape}, {"offset", piece.offset}, {"length", piece.length}};
  return object;
}

std::map<std::string, std::string> part_metadata(const Part& part, const Untied& untied, const json& kinds) {
  return {{"format", "pt"},
          {kPartKey, json{{"version", kFormatVersion},
                          {"name", part.name},
                          {"copy", part.copy},
                          {"holder", part.holder},
                          {"run", part.run},
                          {"plan", part.plan},
                          {"updates", part.updates}}
                         .dump()},
          {kPartOrderKey, json(part.order).dump()},
          {kPartAliasesKey, json(untied.aliases).dump()},
          {kParametersKey, parameters_to_json(part.weights).dump()},
          {kTensorsKey, kinds.dump()},
          {kOptimizerKey, optimizer_to_json(part.optimizer).dump()},
          {kPiecesKey, pieces_to_json(part.pieces).dump()},
          {kRecordsKey, json(part.records).dump()}};
}

}  // namespace

Result<PartEntry> write_part(const Part& part, const archive::Sink& sink) {
  if (Status status = check_part(part); !status.ok()) return status;
  const Untied untied = without_aliases(part.weights);
  const FileTensors tensors(part, untied);
  archive::Safetensors contents{{}, tensors.tensors()};
  try {
    contents.metadata = part_metadata(part, untied, tensors.kinds());
  } catch (const json::type_error&) {
    return invalid("a name in it is not UTF-8");
  }
  PartEntry entry{.name = part.name,
                  .file = text(part.name, kPartSuffix),
                  .holder = part.holder,
                  .copy = part.copy,
                  .bytes = 0,
                  .sha256 = {},
                  .tensors = {},
                  .tensor_bytes = 0};
  for (const auto& [name, payload] : untied.tensors) {
    entry.tensors.push_back(name);
    entry.tensor_bytes += archive::byte_count(payload);
  }
  identity::Sha256 hash;
  const Status status = archive::write_safetensors(contents, [&](ByteSpan bytes) {
    hash.add(bytes);
    entry.bytes += bytes.size();
    return sink(bytes);
  });
  if (!status.ok()) return status;
  Result<std::string> digits = hash.digits();
  if (!digits.ok()) return digits.status();
  entry.sha256 = std::move(*digits);
  return entry;
}

namespace {

// Makes the file once there is something to write: a part that cannot be leaves nothing.
class PartTarget {
 public:
  explicit PartTarget(std::filesystem::path path) : path_(std::move(path)) {}

  Status append(ByteSpan bytes) {
    if (!file_) {
      failure_ = make_folders(folder_of(path_));
      if (!failure_.ok()) return failure_;
      Result<AtomicFile> file = AtomicFile::create(path_);
      failure_ = file.status();
      if (!failure_.ok()) return failure_;
      file_.emplace(std::move(*file));
    }
    return failure_ = file_->append(bytes);
  }
  Status commit() { return file_->commit(); }
  // Of the disk, which names the file.
  const Status& failure() const { return failure_; }

 private:
  std::filesystem::path path_;
  std::optional<AtomicFile> file_;
  Status failure_;
};

}  // namespace

Result<PartEntry> write_part(const std::filesystem::path& folder, const Part& part) {
  const std::filesystem::path path = folder / text(part.name, kPartSuffix);
  PartTarget target(path);
  Result<PartEntry> entry = write_part(part, [&](ByteSpan bytes) { return target.append(bytes); });
  if (!target.failure().ok()) return target.failure();
  if (!entry.ok()) return entry.status().with_context(text("cannot write ", printable(path.string())));
  if (Status status = target.commit(); !status.ok()) return status;
  return entry;
}

}  // namespace ravnest::checkpoint
