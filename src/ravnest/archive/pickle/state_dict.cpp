#include "ravnest/archive/pickle/state_dict.h"

#include <set>
#include <vector>

#include "ravnest/archive/payload.h"
#include "ravnest/archive/pickle/state_dict_format.h"
#include "ravnest/archive/windows.h"
#include "ravnest/archive/zip.h"
#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"

namespace ravnest::archive {
namespace {

std::string named(const std::string& name) { return text("tensor \"", printable(name), "\""); }

Status check_for_torch(const NamedPayloads& tensors) {
  for (const auto& [name, payload] : tensors) {
    if (!has_storage_class(payload.dtype))
      return unsupported(named(name), " is ", dtype_name(payload.dtype), ", which is not written to .pt files");
    if (Status status = check(payload); !status.ok()) return status.with_context(named(name));
  }
  return {};
}

// torch gives a storage the type of the first tensor on it.
Status check_types(const NamedPayloads& tensors, const std::vector<Window>& windows) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, payload] = tensors[i];
    const auto& [keeper, kept] = tensors[windows[i].keeper];
    if (kept.dtype != payload.dtype)
      return unsupported(named(name), ", ", dtype_name(payload.dtype), ", shares memory with ", named(keeper), ", ",
                         dtype_name(kept.dtype), "; .pt files keep one type per storage");
  }
  return {};
}

Status check_names(const NamedPayloads& tensors) {
  std::set<std::string_view> seen;
  for (const auto& [name, payload] : tensors) {
    if (!seen.insert(name).second) return invalid(named(name), " is there twice");
    if (!is_utf8(name)) return invalid(named(name), ": the name is not UTF-8");
  }
  return {};
}

}  // namespace

Status write_torch_file(const NamedPayloads& tensors, const PickleBody& body, std::string_view folder,
                        const Sink& sink) {
  if (Status status = check_for_torch(tensors); !status.ok()) return status;
  const std::vector<Window> windows = windows_of(tensors);
  if (Status status = check_types(tensors, windows); !status.ok()) return status;

  std::vector<ByteSpan> records;
  std::vector<std::size_t> record_of(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    record_of[i] = windows[i].keeper == i ? records.size() : record_of[windows[i].keeper];
    const std::size_t item = item_size(tensors[i].second.dtype);
    if (windows[i].keeper == i) records.push_back(windows[i].record.first(windows[i].record.size() / item * item));
  }
  PickleWriter pickle;
  body(pickle, [&](std::size_t i) {
    const Payload& payload = tensors[i].second;
    const auto elements = static_cast<std::int64_t>(records[record_of[i]].size() / item_size(payload.dtype));
    pickle.tensor(payload.dtype, std::to_string(record_of[i]), elements, windows[i].storage_offset, payload.sizes,
                  payload.strides, false);
  });

  const std::string root = text(folder, "/");
  ZipWriter zip(sink);
  Status status = zip.add(root + "data.pkl", ByteSpan(pickle.finish()));
  if (status.ok()) status = zip.add(root + "byteorder", std::string_view("little"));
  for (std::size_t i = 0; status.ok() && i < records.size(); ++i)
    status = zip.add(root + "data/" + std::to_string(i), records[i]);
  if (status.ok()) status = zip.add(root + "version", std::string_view("3\n"));
  return status.ok() ? zip.finish() : status;
}

Status write_state_dict(const NamedPayloads& tensors, std::string_view folder, const Sink& sink) {
  if (Status status = check_names(tensors); !status.ok()) return status;
  const PickleBody body = [&](PickleWriter& pickle, const auto& tensor) {
    pickle.begin_ordered_dict();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      pickle.string(tensors[i].first);
      tensor(i);
    }
    pickle.end_dict();
  };
  return write_torch_file(tensors, body, folder, sink);
}

Status write_state_dict(const std::filesystem::path& path, const NamedPayloads& tensors) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.ok()) return file.status();
  Status disk;
  const Status status =
      write_state_dict(tensors, path.stem().string(), [&](ByteSpan bytes) { return disk = file->append(bytes); });
  if (!disk.ok()) return disk;
  if (!status.ok()) return status.with_context(text("cannot write ", path.string()));
  return file->commit();
}

}  // namespace ravnest::archive
