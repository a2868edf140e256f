#include "ravnest/archive/windows.h"

#include <algorithm>
#include <map>

namespace ravnest::archive {

std::vector<Window> windows_of(const NamedPayloads& payloads) {
  std::map<const Storage*, std::vector<const Payload*>> users;
  for (const auto& [name, payload] : payloads) {
    if (element_count(payload) > 0) users[payload.storage.get()].push_back(&payload);
  }
  std::map<const Storage*, std::size_t> keepers;
  std::vector<Window> windows;
  windows.reserve(payloads.size());
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    const Payload& payload = payloads[i].second;
    if (element_count(payload) == 0) {
      windows.push_back({i, {}, 0});
      continue;
    }
    const std::vector<const Payload*>& sharing = users[payload.storage.get()];
    const bool alone =
        std::all_of(sharing.begin(), sharing.end(), [&](const Payload* other) { return same_tensor(*other, payload); });
    const std::size_t keeper = keepers.emplace(payload.storage.get(), i).first->second;
    const ByteSpan storage = payload.storage->bytes;
    if (alone && is_contiguous(payload)) {
      const std::size_t item = item_size(payload.dtype);
      windows.push_back({keeper, storage.subspan(payload.storage_offset * item, element_count(payload) * item), 0});
    } else {
      windows.push_back({keeper, storage, payload.storage_offset});
    }
  }
  return windows;
}

}  // namespace ravnest::archive
