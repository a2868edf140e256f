#include "ravnest/pipeline/tensors.h"

#include <ATen/ATen.h>

#include <span>
#include <utility>
#include <vector>

#include "ravnest/graph/tensors.h"

namespace ravnest::pipeline {
namespace {

// What keeps a slice's memory: found again by its type, with std::get_deleter.
struct TensorKeeper {
  at::Tensor tensor;
  std::shared_ptr<const void> keep;
  void operator()(const void*) const {}
};

wire::Slice slice_of(const at::Tensor& tensor, std::shared_ptr<const void> keep) {
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {ByteSpan(data, tensor.nbytes()),
          std::shared_ptr<const void>(tensor.unsafeGetTensorImpl(), TensorKeeper{tensor, std::move(keep)})};
}

std::span<const float> floats(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

wire::Tensor to_wire(const at::Tensor& given, const wire::Codec& codec, bool host, std::shared_ptr<const void> keep) {
  at::Tensor tensor = given.detach();
  const bool encoded = codec.kind != wire::CodecKind::kNone && tensor.scalar_type() == at::kFloat;
  if ((host || encoded) && !tensor.is_cpu()) tensor = tensor.cpu();
  tensor = tensor.contiguous();
  wire::Tensor result{.dtype = graph::from_torch(tensor.scalar_type()), .shape = tensor.sizes().vec(), .data = {}};
  if (!encoded) {
    result.data = slice_of(tensor, std::move(keep));
    return result;
  }
  result.codec = codec.kind;
  std::vector<std::byte> bytes(wire::encoded_size(codec, static_cast<std::size_t>(tensor.numel())));
  const Status status = wire::encode(codec, floats(tensor), bytes);
  TORCH_CHECK(status.ok(), status.message());
  result.data = wire::slice_of(std::move(bytes));
  return result;
}

Result<at::Tensor> from_wire(const wire::Tensor& tensor, c10::Device device) {
  const auto options = at::TensorOptions().dtype(graph::to_torch(tensor.dtype));
  if (tensor.codec != wire::CodecKind::kNone) {
    at::Tensor decoded = at::empty(tensor.shape, options);
    const std::span<float> out(decoded.data_ptr<float>(), static_cast<std::size_t>(decoded.numel()));
    if (Status status = wire::decode(tensor.codec, tensor.data.bytes, out); !status.ok()) return status;
    return decoded.to(device);
  }
  if (const auto* keeper = std::get_deleter<TensorKeeper>(tensor.data.owner)) return keeper->tensor.to(device);
  if (tensor.data.size() == 0) return at::empty(tensor.shape, options.device(device));
  // Nobody writes to it: see the header.
  auto* data = const_cast<std::byte*>(tensor.data.bytes.data());
  return at::from_blob(
             data, tensor.shape, [owner = tensor.data.owner](void*) {}, options)
      .to(device);
}

}  // namespace ravnest::pipeline
