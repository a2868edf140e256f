// Stored tensors for tests, and ways to look into them. Not part of any library.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/archive/payload.h"
#include "ravnest/base/bytes.h"
#include "ravnest/base/text.h"

namespace ravnest::archive::testing {

template <class T>
std::shared_ptr<const Storage> storage_of(std::vector<T> values) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return std::make_shared<Storage>(Storage{owner, std::as_bytes(std::span(*owner))});
}

inline std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

inline Payload float_payload(const std::vector<std::int64_t>& sizes, std::vector<float> values) {
  return {DType::kFloat32, sizes, row_major(sizes), 0, false, false, storage_of(std::move(values))};
}

template <class T>
Payload payload_of(DType dtype, const std::vector<std::int64_t>& sizes, std::vector<T> values) {
  return {dtype, sizes, row_major(sizes), 0, false, false, storage_of(std::move(values))};
}

// The elements that a payload shows, one after the other in row-major order.
inline std::vector<std::byte> elements(const Payload& payload) {
  std::vector<std::byte> result;
  const std::size_t item = item_size(payload.dtype);
  std::vector<std::int64_t> index(payload.sizes.size(), 0);
  for (std::int64_t i = element_count(payload); i > 0; --i) {
    std::int64_t at = payload.storage_offset;
    for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * payload.strides[d];
    const ByteSpan element = payload.storage->bytes.subspan(static_cast<std::size_t>(at) * item, item);
    result.insert(result.end(), element.begin(), element.end());
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < payload.sizes[d]) break;
      index[d] = 0;
    }
  }
  return result;
}

inline bool same_elements(const NamedPayloads& a, const NamedPayloads& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (elements(a[i].second) != elements(b[i].second)) return false;
  }
  return true;
}

inline std::vector<std::string> names_of(const NamedPayloads& payloads) {
  std::vector<std::string> names;
  for (const auto& [name, payload] : payloads) names.push_back(name);
  return names;
}

inline std::vector<float> floats_of(const Payload& payload) {
  const std::vector<std::byte> bytes = elements(payload);
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline std::string shown(const NamedPayloads& payloads) {
  std::string result;
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    const auto& [name, payload] = payloads[i];
    std::size_t twin = 0;
    while (twin < i && !same_tensor(payloads[twin].second, payload)) ++twin;
    result += text(name, ": ", dtype_name(payload.dtype), "[", join(payload.sizes), "] parameter ",
                   payload.is_parameter, " gradient ", payload.requires_grad, " same as ", twin, "\n");
  }
  return result;
}

// A sink that keeps what it is given.
inline auto into(ByteWriter& out) {
  return [&out](ByteSpan bytes) {
    out.bytes(bytes);
    return Status();
  };
}

}  // namespace ravnest::archive::testing
