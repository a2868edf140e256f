#include "ravnest/strategy/communicate/checks.h"

#include <ATen/ATen.h>

namespace ravnest::strategy {
namespace {

void check_flat(std::string_view operation, const at::Tensor& values) {
  TORCH_CHECK(values.defined() && values.dim() > 0 && values.is_contiguous(), operation,
              " of a tensor that is not flat");
  TORCH_CHECK(values.layout() == at::kStrided && !values.is_conj() && !values.is_neg(), operation,
              " of a tensor that is not plain");
}

}  // namespace

void check_numbers(std::string_view operation, const at::Tensor& values, const Compression* compression) {
  check_flat(operation, values);
  TORCH_CHECK(values.scalar_type() == at::kFloat || values.scalar_type() == at::kDouble, operation, " of ",
              values.scalar_type(), ": it takes float32 and float64");
  if (compression == nullptr) return;
  TORCH_CHECK(values.scalar_type() == at::kFloat, operation, " of ", values.scalar_type(),
              " can't be compressed: only float32 can");
  const auto elements = static_cast<std::int64_t>(compression->residual.residual().size());
  TORCH_CHECK(values.numel() == elements, operation, " of ", values.numel(), " elements with a compression for ",
              elements);
}

void check_bits(std::string_view operation, const at::Tensor& values) {
  check_flat(operation, values);
  const std::size_t bytes = values.element_size();
  TORCH_CHECK(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8, operation, " of ", values.scalar_type());
}

void check_segments(std::string_view operation, const at::Tensor& values, int world) {
  TORCH_CHECK(values.numel() % world == 0, operation, " of ", values.numel(), " elements, which are not ", world,
              " equal segments");
}

void check_root(int root, int world) {
  TORCH_CHECK(root >= 0 && root < world, "broadcast from rank ", root, " of ", world);
}

}  // namespace ravnest::strategy
