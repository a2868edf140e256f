#include "ravnest/graph/operators/tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "ravnest/base/shared_file.h"

namespace ravnest::graph {

at::ScalarType to_torch(DType dtype) {
  switch (dtype) {
    case DType::kUInt8: return at::kByte;
    case DType::kInt8: return at::kChar;
    case DType::kInt16: return at::kShort;
    case DType::kInt32: return at::kInt;
    case DType::kInt64: return at::kLong;
    case DType::kFloat16: return at::kHalf;
    case DType::kFloat32: return at::kFloat;
    case DType::kFloat64: return at::kDouble;
    case DType::kComplex32: return at::kComplexHalf;
    case DType::kComplex64: return at::kComplexFloat;
    case DType::kComplex128: return at::kComplexDouble;
    case DType::kBool: return at::kBool;
    case DType::kBFloat16: return at::kBFloat16;
    case DType::kUInt16: return at::kUInt16;
    case DType::kFloat8E4M3FN: return at::kFloat8_e4m3fn;
    case DType::kFloat8E5M2: return at::kFloat8_e5m2;
    case DType::kFloat8E4M3FNUZ: return at::kFloat8_e4m3fnuz;
    case DType::kFloat8E5M2FNUZ: return at::kFloat8_e5m2fnuz;
    case DType::kFloat8E8M0FNU: return at::kFloat8_e8m0fnu;
    case DType::kUInt32: return at::kUInt32;
    case DType::kUInt64: return at::kUInt64;
  }
  TORCH_CHECK(false, "unknown element type");
}

DType from_torch(at::ScalarType dtype) {
  for (int i = 0; i <= static_cast<int>(DType::kUInt64); ++i) {
    if (to_torch(static_cast<DType>(i)) == dtype) return static_cast<DType>(i);
  }
  TORCH_CHECK(false, "element type ", dtype, " cannot be stored in an archive");
}

at::MemoryFormat to_torch(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::kContiguous: return at::MemoryFormat::Contiguous;
    case MemoryFormat::kChannelsLast: return at::MemoryFormat::ChannelsLast;
    case MemoryFormat::kChannelsLast3d: return at::MemoryFormat::ChannelsLast3d;
    case MemoryFormat::kPreserve: return at::MemoryFormat::Preserve;
  }
  TORCH_CHECK(false, "unknown memory format");
}

namespace {

at::Tensor copy_of_storage(const archive::Payload& payload, c10::Device device) {
  const auto elements = static_cast<std::int64_t>(payload.storage->bytes.size() / item_size(payload.dtype));
  at::Tensor flat = at::empty({elements}, at::TensorOptions().dtype(to_torch(payload.dtype)));
  if (elements > 0) std::memcpy(flat.data_ptr(), payload.storage->bytes.data(), flat.nbytes());
  forget(payload.storage->owner, payload.storage->bytes);  // or a stage that is loaded would be there twice
  return device.is_cpu() ? flat : flat.to(device);
}

}  // namespace

std::vector<at::Tensor> materialize(const archive::NamedPayloads& payloads, c10::Device device) {
  std::map<std::pair<const archive::Storage*, DType>, at::Tensor> storages;
  std::vector<at::Tensor> tensors;
  for (const auto& [name, payload] : payloads) {
    const auto twin =
        std::find_if(payloads.begin(), payloads.begin() + static_cast<std::ptrdiff_t>(tensors.size()),
                     [&, &own = payload](const auto& earlier) { return archive::same_tensor(earlier.second, own); });
    if (twin != payloads.begin() + static_cast<std::ptrdiff_t>(tensors.size())) {
      tensors.push_back(tensors[static_cast<std::size_t>(twin - payloads.begin())]);
      continue;
    }
    at::Tensor& flat = storages[{payload.storage.get(), payload.dtype}];
    if (!flat.defined()) flat = copy_of_storage(payload, device);
    at::Tensor tensor = at::empty({0}, flat.options());
    tensor.set_(flat.storage(), payload.storage_offset, payload.sizes, payload.strides);
    tensor.set_requires_grad(payload.requires_grad);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<archive::Payload> to_payloads(std::span<const at::Tensor> tensors) {
  std::map<const void*, at::Tensor> hosts;  // by tensor, so that names of one tensor stay names of one
  std::map<const void*, std::shared_ptr<const archive::Storage>> storages;
  std::vector<archive::Payload> payloads;
  for (const at::Tensor& tensor : tensors) {
    at::Tensor& host = hosts[tensor.unsafeGetTensorImpl()];
    if (!host.defined()) host = tensor.detach().cpu();
    std::shared_ptr<const archive::Storage>& storage = storages[host.storage().unsafeGetStorageImpl()];
    if (storage == nullptr) {
      const auto* data = static_cast<const std::byte*>(host.storage().data());
      storage = std::make_shared<archive::Storage>(
          archive::Storage{std::make_shared<at::Tensor>(host), {data, host.storage().nbytes()}});
    }
    payloads.push_back({from_torch(host.scalar_type()), host.sizes().vec(), host.strides().vec(), host.storage_offset(),
                        tensor.requires_grad(), false, storage});
  }
  return payloads;
}

}  // namespace ravnest::graph
