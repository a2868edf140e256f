#include "ravnest/train/node/labels.h"

#include <ATen/ATen.h>

#include "ravnest/base/bytes.h"
#include "ravnest/codec/crc32c.h"

namespace ravnest::train {

std::uint64_t label_digest(std::span<const at::Tensor> labels) {
  std::uint32_t values = 0;
  std::uint32_t shapes = 0;
  for (const at::Tensor& label : labels) {
    const at::Tensor plain = label.detach().cpu().contiguous();
    values = codec::crc32c({static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()}, values);
    std::vector<std::int64_t> shape(plain.sizes().begin(), plain.sizes().end());
    shape.push_back(static_cast<std::int64_t>(plain.scalar_type()));
    shape.push_back(plain.dim());
    shapes = codec::crc32c(std::as_bytes(std::span(shape)), shapes);
  }
  const std::uint64_t digest = std::uint64_t{shapes} << 32 | values;
  return digest == 0 ? 1 : digest;
}

}  // namespace ravnest::train
