#include "ravnest/worker/tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "ravnest/graph/operators/tensors.h"

namespace ravnest::worker {
namespace {

// What keeps a slice's memory: found again by its type, with std::get_deleter.
struct TensorKeeper {
  at::Tensor tensor;
  std::shared_ptr<const void> keep;
  void operator()(const void*) const {}
};

Slice slice_of(const at::Tensor& tensor, std::shared_ptr<const void> keep) {
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {ByteSpan(data, tensor.nbytes()),
          std::shared_ptr<const void>(tensor.unsafeGetTensorImpl(), TensorKeeper{tensor, std::move(keep)})};
}

std::span<const float> floats(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

// The dimensions of a dense tensor as they lie in memory; none where that is their own order.
std::vector<std::uint8_t> order_of(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return {};
  std::vector<std::uint8_t> order(static_cast<std::size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::ranges::stable_sort(order, [&](auto a, auto b) { return tensor.stride(a) > tensor.stride(b); });
  return order;
}

// The sizes in the order in which the dimensions lie in memory.
std::vector<std::int64_t> sizes_in_memory(const wire::Tensor& tensor) {
  std::vector<std::int64_t> sizes = tensor.shape;
  for (std::size_t i = 0; i < tensor.order.size(); ++i) sizes[i] = tensor.shape[tensor.order[i]];
  return sizes;
}

// Another codec, or another share of top-k, may stand for much more memory than the run's own.
Status check_codec(const wire::Tensor& tensor, const codec::Codec& agreed) {
  const std::uint64_t elements = wire::element_count(tensor);
  if (tensor.codec == agreed.kind && tensor.data.size() == codec::encoded_size(agreed, elements)) return {};
  const bool other_share = tensor.codec == agreed.kind;
  return corrupt("a tensor came as ", codec::name(tensor.codec),
                 other_share ? text(" of ", tensor.data.size(), " bytes for ", elements, " elements") : "",
                 ", and the run's compression is ", agreed);
}

// The tensor that lies so in memory.
at::Tensor in_shape(const at::Tensor& memory, const std::vector<std::uint8_t>& order) {
  if (order.empty()) return memory;
  std::vector<std::int64_t> places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) places[order[i]] = static_cast<std::int64_t>(i);
  return memory.permute(places);
}

}  // namespace

wire::Tensor to_wire(const at::Tensor& given, const codec::Codec& codec, bool host, std::shared_ptr<const void> keep) {
  at::Tensor tensor = given.detach();
  const bool encoded = codec.kind != codec::CodecKind::kNone && tensor.scalar_type() == at::kFloat;
  if ((host || encoded) && !tensor.is_cpu()) tensor = tensor.cpu();
  if (!tensor.is_non_overlapping_and_dense()) tensor = tensor.clone(at::MemoryFormat::Preserve);
  wire::Tensor result{.dtype = graph::from_torch(tensor.scalar_type()),
                      .shape = tensor.sizes().vec(),
                      .data = {},
                      .order = order_of(tensor)};
  if (!encoded) {
    result.data = slice_of(tensor, std::move(keep));
    return result;
  }
  result.codec = codec.kind;
  std::vector<std::byte> bytes(codec::encoded_size(codec, static_cast<std::size_t>(tensor.numel())));
  const Status status = codec::encode(codec, floats(tensor), bytes);
  TORCH_CHECK(status.ok(), status.message());
  result.data = ravnest::slice_of(std::move(bytes));
  return result;
}

std::vector<wire::EdgeTensor> model_inputs(const std::vector<at::Tensor>& inputs, bool host) {
  std::vector<wire::EdgeTensor> edges;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) edges.push_back({static_cast<std::uint32_t>(i), false, to_wire(inputs[i], {}, host)});
  }
  return edges;
}

bool has_sizes(const wire::Tensor& tensor, at::IntArrayRef sizes) { return at::IntArrayRef(tensor.shape) == sizes; }

Result<at::Tensor> from_wire(const wire::Tensor& tensor, c10::Device device, const codec::Codec& agreed) {
  const auto options = at::TensorOptions().dtype(graph::to_torch(tensor.dtype));
  if (tensor.codec != codec::CodecKind::kNone) {
    if (Status expected = check_codec(tensor, agreed); !expected.ok()) return expected;
    const at::Tensor decoded = at::empty(sizes_in_memory(tensor), options);
    const std::span<float> out(decoded.data_ptr<float>(), static_cast<std::size_t>(decoded.numel()));
    if (Status status = codec::decode(tensor.codec, tensor.data.bytes, out); !status.ok()) return status;
    return in_shape(decoded, tensor.order).to(device);
  }
  if (const auto* keeper = std::get_deleter<TensorKeeper>(tensor.data.owner)) return keeper->tensor.to(device);
  if (tensor.data.size() == 0) return at::empty(tensor.shape, options.device(device));
  // Nobody writes to it: see the header.
  auto* data = const_cast<std::byte*>(tensor.data.bytes.data());
  const at::Tensor memory = at::from_blob(
      data, sizes_in_memory(tensor), [owner = tensor.data.owner](void*) {}, options);
  return in_shape(memory, tensor.order).to(device);
}

}  // namespace ravnest::worker
