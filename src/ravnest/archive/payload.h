// Stored tensors as plain data: what files hold, without torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/dtype.h"
#include "ravnest/base/status.h"

namespace ravnest::archive {

// Bytes that some owner keeps alive: a mapped file, a tensor.
struct Storage {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

// A stored tensor: a strided window on a storage. Payloads that share a storage object share memory (tied weights).
struct Payload {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t storage_offset = 0;
  bool requires_grad = false;
  bool is_parameter = false;
  std::shared_ptr<const Storage> storage;
};

std::int64_t element_count(const Payload& payload);
// Whether the elements, if any, lie in row-major order without gaps.
bool is_contiguous(const Payload& payload);
// True for two names of one tensor. Empty tensors are never tied: they have no memory to share.
bool same_tensor(const Payload& a, const Payload& b);

using NamedPayloads = std::vector<std::pair<std::string, Payload>>;

// kCorrupt unless the tensor lies within its storage and may have the gradient that it asks for; kUnsupported for a
// parameter whose elements overlap.
Status check(const Payload& payload);

}  // namespace ravnest::archive
