#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "ravnest/archive/payload.h"
#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/archive/weights/safetensors_format.h"
#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"

namespace ravnest::archive {
namespace {

using nlohmann::json;

using Named = NamedPayloads::value_type;

Status check_for_safetensors(const NamedPayloads& tensors) {
  std::set<std::string_view> seen;
  for (const auto& [name, payload] : tensors) {
    const std::string which = text("tensor \"", printable(name), "\"");
    if (name == kMetadataKey) return invalid("a tensor cannot have the name ", kMetadataKey);
    if (!seen.insert(name).second) return invalid(which, " is there twice");
    if (!safetensors_name(payload.dtype))
      return unsupported(which, " is ", dtype_name(payload.dtype), ", which safetensors files do not have here");
    if (Status status = check(payload); !status.ok()) return status.with_context(which);
  }
  return {};
}

// Put together as text: a JSON object would lose the order, and one that keeps it takes quadratic time.
std::string header_text(const Safetensors& contents, const std::vector<const Named*>& in_order) {
  std::string header = "{";
  if (!contents.metadata.empty()) header += text('"', kMetadataKey, "\":", json(contents.metadata).dump());
  std::uint64_t offset = 0;
  for (const Named* entry : in_order) {
    const auto& [name, payload] = *entry;
    const std::uint64_t end = offset + byte_count(payload);
    header += text(header.size() > 1 ? "," : "", json(name).dump(), ":{\"dtype\":\"", *safetensors_name(payload.dtype),
                   "\",\"shape\":[", join(payload.sizes, ","), "],\"data_offsets\":[", offset, ",", end, "]}");
    offset = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

}  // namespace

Status write_safetensors(const Safetensors& contents, const Sink& sink) {
  if (Status status = check_for_safetensors(contents.tensors); !status.ok()) return status;
  std::vector<const Named*> in_order;
  for (const Named& entry : contents.tensors) in_order.push_back(&entry);
  std::stable_sort(in_order.begin(), in_order.end(), [](const Named* a, const Named* b) {
    return item_size(a->second.dtype) > item_size(b->second.dtype);
  });
  std::string header;
  try {
    header = header_text(contents, in_order);
  } catch (const json::type_error&) {
    return invalid("the name of a tensor, or a text of the metadata, is not UTF-8");
  }
  if (header.size() > kMostHeaderBytes)
    return unsupported("a header of ", header.size(), " bytes; the format ends at ", kMostHeaderBytes);
  ByteWriter start;
  start.u64(header.size());
  start.string(header);
  if (Status status = sink(start.bytes()); !status.ok()) return status;
  for (const Named* entry : in_order) {
    if (Status status = feed_elements(entry->second, sink); !status.ok()) return status;
  }
  return {};
}

Status write_safetensors(const std::filesystem::path& path, const Safetensors& contents) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.ok()) return file.status();
  Status disk;
  const Status status = write_safetensors(contents, [&](ByteSpan bytes) { return disk = file->append(bytes); });
  if (!disk.ok()) return disk;
  if (!status.ok()) return status.with_context(text("cannot write ", path.string()));
  return file->commit();
}

}  // namespace ravnest::archive
