#include <limits>
#include <utility>

#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/shared_file.h"
#include "ravnest/checkpoint/metadata.h"
#include "ravnest/checkpoint/option_json.h"
#include "ravnest/checkpoint/part_format.h"
#include "ravnest/checkpoint/tied_names.h"

namespace ravnest::checkpoint {
namespace {

using archive::Safetensors;
using nlohmann::json;

void read_part_facts(const Safetensors& contents, Part& part) {
  const json facts = metadata_json(contents, kPartKey);
  const Field field(facts, kPartKey);
  if (field["version"].integer() != kFormatVersion) field.refuse(other_version(field["version"].integer()));
  part.name = field["name"].string();
  const std::uint64_t copy = count_of(field["copy"]);
  if (copy > std::numeric_limits<std::uint32_t>::max()) field["copy"].fail("the number is too large");
  part.copy = static_cast<std::uint32_t>(copy);
  part.holder = field["holder"].string();
  part.run = field["run"].string();
  part.plan = field["plan"].string();
  part.updates = count_of(field["updates"]);
}

using Kinds = std::map<std::string, std::pair<std::string, std::pair<std::string, std::string>>>;

// By name in the file: the kind, who it is of, and its name there.
Kinds read_kinds(const Field& field) {
  Kinds kinds;
  const auto add = [&](const std::string& file_name, const Field& where, const char* kind, std::string owner,
                       std::string name) {
    if (!kinds.emplace(file_name, std::pair(kind, std::pair(std::move(owner), std::move(name)))).second)
      where.fail("the tensor is of two kinds");
  };
  field[kBufferKind].for_each_member(
      [&](const std::string& name, const Field& value) { add(name, value, kBufferKind, "", value.string()); });
  for (const char* kind : {kOptimizerKind, kRecordKind}) {
    field[kind].for_each_member([&](const std::string& name, const Field& value) {
      std::vector<std::string> words = string_list(value);
      if (words.size() != 2) value.fail("expected two names");
      add(name, value, kind, std::move(words[0]), std::move(words[1]));
    });
  }
  return kinds;
}

void sort_out(archive::NamedPayloads tensors, Kinds kinds, Part& part) {
  for (auto& [name, payload] : tensors) {
    const auto found = kinds.extract(name);
    if (found.empty()) {
      part.weights.emplace_back(std::move(name), std::move(payload));
      continue;
    }
    const auto& [kind, names] = found.mapped();
    if (kind == kBufferKind)
      part.buffers.emplace_back(names.second, std::move(payload));
    else if (kind == kOptimizerKind)
      part.optimizer.tensors[names.first].emplace_back(names.second, std::move(payload));
    else
      part.record_tensors[names.first].emplace_back(names.second, std::move(payload));
  }
  if (!kinds.empty())
    throw DecodeError{corrupt(kTensorsKey, ".", kinds.begin()->first, ": the file has no such tensor")};
}

void mark_parameters(const Field& field, archive::NamedPayloads& weights) {
  std::map<std::string_view, archive::Payload*> by_name;
  for (auto& [name, payload] : weights) by_name.emplace(name, &payload);
  field.for_each_member([&](const std::string& name, const Field& trained) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) trained.fail("the file has no such weight");
    found->second->is_parameter = true;
    found->second->requires_grad = trained.boolean();
    if (trained.boolean() && !is_floating(found->second->dtype)) trained.fail("its type cannot have a gradient");
  });
}

void read_optimizer(const Field& field, OptimizerPart& optimizer) {
  optimizer.name = field["name"].string();
  field["groups"].for_each([&](const Field& group) {
    optimizer.groups.push_back({options_from(group["options"]), string_list(group["parameters"])});
  });
  field["values"].for_each_member([&](const std::string& parameter, const Field& values) {
    optimizer.values.emplace(parameter, options_from(values));
  });
}

Piece piece_from(const Field& field) {
  Piece piece;
  field["shape"].for_each([&](const Field& size) { piece.shape.push_back(size.integer()); });
  piece.offset = count_of(field["offset"]);
  piece.length = count_of(field["length"]);
  return piece;
}

// With each text's JSON alive for as long as its fields are.
template <class Read>
void read_metadata_json(const Safetensors& contents, const char* key, const Read& read) {
  const json document = metadata_json(contents, key);
  read(Field(document, key));
}

Part part_from_contents(Safetensors contents) {
  Part part;
  read_part_facts(contents, part);
  read_metadata_json(contents, kPartOrderKey, [&](const Field& field) { part.order = string_list(field); });
  read_metadata_json(contents, kTensorsKey,
                     [&](const Field& field) { sort_out(std::move(contents.tensors), read_kinds(field), part); });
  read_metadata_json(contents, kPartAliasesKey, [&](const Field& field) { add_aliases(field, part.weights); });
  sort_by(part.order, part.weights);
  read_metadata_json(contents, kParametersKey, [&](const Field& field) { mark_parameters(field, part.weights); });
  read_metadata_json(contents, kOptimizerKey, [&](const Field& field) { read_optimizer(field, part.optimizer); });
  read_metadata_json(contents, kPiecesKey, [&](const Field& field) {
    field.for_each_member(
        [&](const std::string& name, const Field& piece) { part.pieces.emplace(name, piece_from(piece)); });
  });
  read_metadata_json(contents, kRecordsKey, [&](const Field& field) {
    field.for_each_member(
        [&](const std::string& name, const Field& record) { part.records.emplace(name, record.string()); });
  });
  return part;
}

Status check_is_part(const Safetensors& contents, std::string_view what) {
  if (contents.metadata.contains(kPartKey)) return {};
  return invalid(what, " is not a part of a checkpoint: its metadata has no ", kPartKey);
}

}  // namespace

std::string other_version(std::int64_t version) {
  return text("the checkpoint is of format version ", version, "; this release of ravnest reads version ",
              kFormatVersion, ": use the release that wrote it, or a later one");
}

Result<Part> read_part(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view what) {
  Result<Safetensors> contents = archive::read_safetensors(bytes, std::move(owner), what);
  if (!contents.ok()) return contents.status();
  if (Status status = check_is_part(*contents, what); !status.ok()) return status;
  try {
    Part part = part_from_contents(std::move(*contents));
    if (Status status = check_part(part); !status.ok()) return corrupt(what, ": ", printable(status.message()));
    return part;
  } catch (const DecodeError& error) {
    return Status(error.status.code(), printable(error.status.message())).with_context(what);
  }
}

Result<Part> read_part(const std::filesystem::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  const ByteSpan bytes = file->bytes();
  return read_part(bytes, share(std::move(*file)), path.string());
}

Result<PartOwner> read_part_owner(const std::filesystem::path& path) {
  const Result<Safetensors> contents = archive::read_safetensors(path);
  if (!contents.ok()) return contents.status();
  if (Status status = check_is_part(*contents, path.string()); !status.ok()) return status;
  try {
    Part part;
    read_part_facts(*contents, part);
    return PartOwner{part.name, part.holder, part.run, part.updates};
  } catch (const DecodeError& error) {
    return Status(error.status.code(), printable(error.status.message())).with_context(path.string());
  }
}

}  // namespace ravnest::checkpoint
