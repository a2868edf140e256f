#include "ravnest/archive/weights/safetensors.h"

#include <algorithm>

#include "ravnest/base/printable.h"
#include "ravnest/data/formats.h"

namespace ravnest::data {
namespace {

constexpr std::size_t kMostNamesShown = 10;
constexpr std::size_t kLongestNameShown = 60;

std::string names_of(const archive::NamedPayloads& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (names.size() == kMostNamesShown) {
      names.emplace_back("...");
      break;
    }
    names.push_back(printable(name.substr(0, kLongestNameShown)));
  }
  return join(names);
}

}  // namespace

Result<archive::Array> decode_safetensors(const Slice& file, std::string_view tensor, std::string_view name) {
  const auto contents = archive::read_safetensors(file.bytes, file.owner, name);
  if (!contents.ok()) return contents.status();
  const archive::NamedPayloads& tensors = contents->tensors;
  auto found = std::ranges::find(tensors, tensor, [](const auto& named) { return std::string_view(named.first); });
  if (found == tensors.end() && tensors.size() == 1) found = tensors.begin();
  if (found == tensors.end())
    return invalid(name, " holds ", tensors.empty() ? "no tensors" : text("the tensors ", names_of(tensors)),
                   "; it has to hold one, or one that is called \"", tensor, "\"");
  const archive::Payload& payload = found->second;
  const ByteSpan bytes = payload.storage->bytes;
  const auto position = static_cast<std::size_t>(bytes.data() - file.bytes.data());
  return archive::array_of(payload.dtype, payload.sizes, {bytes, file.owner}, position, name);
}

Result<archive::Array> read_safetensors(const std::filesystem::path& path, std::string_view tensor) {
  const Result<Slice> file = archive::map_file(path);
  return file.ok() ? decode_safetensors(*file, tensor, path.string()) : file.status();
}

}  // namespace ravnest::data
