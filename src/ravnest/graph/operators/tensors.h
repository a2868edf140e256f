// Between the model's stored data and torch's tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph {

at::ScalarType to_torch(DType dtype);
at::MemoryFormat to_torch(MemoryFormat format);
DType from_torch(at::ScalarType dtype);

// Tensors of their own (the storage is copied, once), with the sizes, strides and requires_grad that were stored.
// Names of one tensor give one tensor; windows on one storage keep sharing it. In the order of the payloads.
std::vector<at::Tensor> materialize(const archive::NamedPayloads& payloads, c10::Device device);

// The tensors as they are now, without a copy: the payloads keep their memory alive. Those on another device are copied
// to the host. What shares memory goes on sharing it. `is_parameter` is left for the caller to set.
std::vector<archive::Payload> to_payloads(std::span<const at::Tensor> tensors);

}  // namespace ravnest::graph
