#include "ravnest/archive/weights/weights.h"

#include "ravnest/archive/pickle/state_dict.h"
#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/base/file.h"

namespace ravnest::archive {
namespace {

bool is_of_torch(ByteSpan bytes) {
  const std::string_view start = as_string_view(bytes);
  return start.starts_with("PK\x03\x04") || start.starts_with("\x80");
}

// A length of eight bytes, then JSON.
bool looks_like_safetensors(ByteSpan bytes) { return bytes.size() > 8 && bytes[8] == std::byte{'{'}; }

}  // namespace

Result<NamedPayloads> read_weights(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view what,
                                   std::string_view entry) {
  // A length may begin like a pickle; a pickle has no brace there.
  if (!looks_like_safetensors(bytes)) {
    if (is_of_torch(bytes)) return read_state_dict(bytes, std::move(owner), what, entry);
    return invalid(what, " is no file of weights: neither safetensors nor of torch.save (.pt, .pth, .bin)");
  }
  if (!entry.empty()) return invalid(what, " is a safetensors file, which has no entries to choose from");
  Result<Safetensors> contents = read_safetensors(bytes, std::move(owner), what);
  if (!contents.ok()) return contents.status();
  return std::move(contents->tensors);
}

Result<NamedPayloads> read_weights(const std::filesystem::path& path, std::string_view entry) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  const auto owner = std::make_shared<const MappedFile>(std::move(*file));
  return read_weights(owner->bytes(), owner, path.string(), entry);
}

}  // namespace ravnest::archive
