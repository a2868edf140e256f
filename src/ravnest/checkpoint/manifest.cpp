#include "ravnest/checkpoint/manifest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "ravnest/base/file.h"
#include "ravnest/base/folder.h"
#include "ravnest/base/printable.h"
#include "ravnest/checkpoint/metadata.h"
#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/part_format.h"

namespace ravnest::checkpoint {
namespace {

using nlohmann::json;

json position_to_json(const DataPosition& position) {
  json object = {{"epoch", position.epoch},
                 {"index", position.index},
                 {"samples", position.samples},
                 {"trained", position.trained},
                 {"passes", position.passes},
                 {"sweep", position.sweep},
                 {"validations", position.validations},
                 {"window_loss", std::isfinite(position.window_loss) ? position.window_loss : 0.0}};
  if (position.validated > 0) object["validated"] = position.validated;
  if (position.updates > 0) object["updates"] = position.updates;
  if (position.batch > 0) object["batch"] = position.batch;
  return object;
}

DataPosition position_from(const Field& field) {
  const auto window_loss = field.optional("window_loss");
  const auto validated = field.optional("validated");
  const auto updates = field.optional("updates");
  const auto batch = field.optional("batch");
  return {.epoch = count_of(field["epoch"]),
          .index = count_of(field["index"]),
          .samples = count_of(field["samples"]),
          .batch = batch ? count_of(*batch) : 0,
          .trained = count_of(field["trained"]),
          .passes = count_of(field["passes"]),
          .sweep = count_of(field["sweep"]),
          .validations = count_of(field["validations"]),
          .validated = validated ? count_of(*validated) : 0,
          .window_loss = window_loss ? window_loss->number() : 0,
          .updates = updates ? count_of(*updates) : 0};
}

std::uint32_t copy_from(const Field& field) {
  const std::uint64_t copy = count_of(field["copy"]);
  if (copy > std::numeric_limits<std::uint32_t>::max()) field["copy"].fail("the number is too large");
  return static_cast<std::uint32_t>(copy);
}

json positions_to_json(const std::map<std::uint32_t, DataPosition>& positions) {
  json list = json::array();
  for (const auto& [copy, position] : positions) {
    list.push_back(position_to_json(position));
    list.back()["copy"] = copy;
  }
  return list;
}

void read_positions(const Field& field, Manifest& manifest) {
  field.for_each([&](const Field& each) {
    if (!manifest.positions.emplace(copy_from(each), position_from(each)).second)
      each.fail("a second position of the same copy");
  });
}

std::string part_file_name(const Field& field) {
  std::string name = field.string();
  if (!is_part_file(name)) field.fail("not the name of a part's file");
  return name;
}

json entry_to_json(const PartEntry& part) {
  return {
      {"name", part.name},   {"file", part.file},     {"holder", part.holder},   {"copy", part.copy},
      {"bytes", part.bytes}, {"sha256", part.sha256}, {"tensors", part.tensors}, {"tensor_bytes", part.tensor_bytes}};
}

PartEntry entry_from(const Field& field) {
  PartEntry part{.name = field["name"].string(),
                 .file = part_file_name(field["file"]),
                 .holder = field["holder"].string(),
                 .copy = copy_from(field),
                 .bytes = count_of(field["bytes"]),
                 .sha256 = field["sha256"].string(),
                 .tensors = string_list(field["tensors"]),
                 .tensor_bytes = count_of(field["tensor_bytes"])};
  if (text(part.name, kPartSuffix) != part.file) field["file"].fail("not the file of the part of this name");
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (part.sha256.size() != 64 || !std::ranges::all_of(part.sha256, is_digit)) field["sha256"].fail("not a SHA-256");
  return part;
}

void read_parts(const Field& field, Manifest& manifest) {
  std::set<std::string> files;
  field.for_each([&](const Field& each) {
    manifest.parts.push_back(entry_from(each));
    if (!files.insert(manifest.parts.back().file).second)
      each.fail(text("two parts have the file ", manifest.parts.back().file));
  });
  if (files.empty()) field.fail("there are none");
}

Manifest manifest_from(const Field& field) {
  if (field["version"].integer() != kFormatVersion) field.refuse(other_version(field["version"].integer()));
  Manifest manifest;
  manifest.run = field["run"].string();
  manifest.written = field["written"].string();
  manifest.strategy = field["strategy"].string();
  manifest.plan = field["plan"].string();
  manifest.updates = count_of(field["updates"]);
  manifest.world = count_of(field["world"]);
  if (manifest.world == 0) field["world"].fail("0");
  manifest.position = position_from(field["position"]);
  if (const auto positions = field.optional("positions")) read_positions(*positions, manifest);
  if (const auto accuracy = field.optional("val_accuracy")) manifest.accuracy = accuracy->number();
  field["settings"].for_each_member(
      [&](const std::string& name, const Field& value) { manifest.settings.emplace(name, value.string()); });
  manifest.order = string_list(field["order"]);
  read_parts(field["parts"], manifest);
  return manifest;
}

// Reads with a function that throws.
template <class T, class Read>
Result<T> decode_json(std::string_view written, std::string_view what, const Read& read) {
  const Result<json> parsed = parse_json_without_repeats(written, what);
  if (!parsed.ok()) return parsed.status();
  try {
    return read(Field(*parsed, std::string(what)));
  } catch (const DecodeError& error) {
    return Status(error.status.code(), printable(error.status.message()));
  }
}

std::string as_text(const json& document) {
  return document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::vector<PartEntry> sorted_parts(const Manifest& manifest) {
  std::vector<PartEntry> parts = manifest.parts;
  std::ranges::sort(parts, {}, [](const PartEntry& part) { return std::tie(part.copy, part.name); });
  return parts;
}

}  // namespace

bool has_part(const Manifest& manifest, std::string_view name) {
  return std::ranges::find(manifest.parts, name, &PartEntry::name) != manifest.parts.end();
}

std::uint32_t copy_for(const Manifest& manifest, std::uint32_t number) {
  std::set<std::uint32_t> copies;
  for (const PartEntry& part : manifest.parts) copies.insert(part.copy);
  if (copies.empty() || copies.contains(number)) return number;
  return *std::next(copies.begin(), number % copies.size());
}

DataPosition position_of(const Manifest& manifest, std::uint32_t copy) {
  const auto found = manifest.positions.find(copy);
  DataPosition position = found == manifest.positions.end() ? manifest.position : found->second;
  if (position.updates == 0) position.updates = manifest.updates;
  return position;
}

std::string encode(const Manifest& manifest) {
  json parts = json::array();
  for (const PartEntry& part : sorted_parts(manifest)) parts.push_back(entry_to_json(part));
  json document = {{"version", kFormatVersion},     {"run", manifest.run},
                   {"written", manifest.written},   {"strategy", manifest.strategy},
                   {"plan", manifest.plan},         {"updates", manifest.updates},
                   {"world", manifest.world},       {"position", position_to_json(manifest.position)},
                   {"settings", manifest.settings}, {"order", manifest.order},
                   {"parts", std::move(parts)}};
  if (!manifest.positions.empty()) document["positions"] = positions_to_json(manifest.positions);
  if (manifest.accuracy && std::isfinite(*manifest.accuracy)) document["val_accuracy"] = *manifest.accuracy;
  return as_text(document);
}

Result<Manifest> decode_manifest(std::string_view written, std::string_view what) {
  return decode_json<Manifest>(written, what, manifest_from);
}

std::string encode(const PartEntry& part) {
  return entry_to_json(part).dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<PartEntry> decode_part_entry(std::string_view written, std::string_view what) {
  return decode_json<PartEntry>(written, what, entry_from);
}

std::string encode_index(const Manifest& manifest) {
  const std::vector<PartEntry> parts = sorted_parts(manifest);
  std::uint64_t bytes = 0;
  std::map<std::string, std::string> files;
  for (const PartEntry& part : parts) {
    if (part.copy != parts.front().copy) break;
    bytes += part.tensor_bytes;
    for (const std::string& tensor : part.tensors) files.emplace(tensor, part.file);
  }
  return as_text({{"metadata", {{"total_size", bytes}}}, {"weight_map", files}});
}

Result<std::map<std::string, std::string>> decode_index(std::string_view written, std::string_view what) {
  using Files = std::map<std::string, std::string>;
  return decode_json<Files>(written, what, [](const Field& field) {
    Files files;
    field["weight_map"].for_each_member(
        [&](const std::string& tensor, const Field& file) { files.emplace(tensor, part_file_name(file)); });
    return files;
  });
}

Status write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  const std::string written = encode(manifest);
  const std::filesystem::path path = folder / kManifestFile;
  // What cannot be read again, such as names that are not UTF-8, is not written.
  const Result<Manifest> again = decode_manifest(written, path.string());
  if (!again.ok()) return invalid("cannot write ", path.string(), ": ", again.status().message());
  Manifest given = manifest;
  given.parts = sorted_parts(manifest);
  if (!(again->order == given.order && again->parts == given.parts && again->settings == given.settings))
    return invalid("cannot write ", path.string(), ": a name in it is not UTF-8");
  if (Status status = make_folders(folder); !status.ok()) return status;
  for (const std::string_view file : {kIndexFile, kManifestFile}) remove_unfinished(folder / file);
  if (Status status = write_file_atomically(folder / kIndexFile, encode_index(manifest)); !status.ok()) return status;
  return write_file_atomically(path, written);
}

Result<Manifest> read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestFile;
  const Result<std::string> written = read_file(path);
  if (!written.ok()) return written.status();
  return decode_manifest(*written, path.string());
}

}  // namespace ravnest::checkpoint
