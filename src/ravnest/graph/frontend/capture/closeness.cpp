#include "ravnest/graph/frontend/capture/closeness.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ravnest::graph {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kSmallest = 1e-2;  // of the largest value of all: no tensor is measured by less

at::Tensor widened(const at::Tensor& value) {
  return value.detach().to(value.is_complex() ? at::kComplexDouble : at::kDouble);
}

double largest(const at::Tensor& value) {
  if (!value.defined() || value.numel() == 0) return 0;
  const double found = widened(value).abs().max().item<double>();
  return std::isfinite(found) ? found : 0;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? largest(a) : largest(b);
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return kInfinite;
  const at::Tensor equal = at::logical_or(a == b, at::logical_and(a != a, b != b));
  if (equal.all().item<bool>()) return 0;
  const at::Tensor apart = (widened(a) - widened(b)).abs();
  const double found = at::where(equal, at::zeros({}, apart.options()), apart).max().item<double>();
  return std::isfinite(found) ? found : kInfinite;
}

at::ScalarType coarser(at::ScalarType a, at::ScalarType b) { return rounding_of(a) < rounding_of(b) ? b : a; }

}  // namespace

double Difference::excess() const { return allowed > 0 ? absolute / allowed : kInfinite; }

double rounding_of(at::ScalarType type) {
  const at::ScalarType real = c10::toRealValueType(type);
  if (!c10::isFloatingType(real)) return 0;
  if (real == at::kDouble) return 1e-12;
  if (real == at::kFloat) return 1e-5;
  if (real == at::kHalf) return 5e-3;
  return 2e-2;
}

at::ScalarType coarsest_type(std::span<const at::Tensor> tensors) {
  at::ScalarType found = at::kDouble;
  for (const at::Tensor& tensor : tensors) found = coarser(found, tensor.scalar_type());
  return found;
}

std::vector<Difference> differences(std::span<const Compared> compared, at::ScalarType coarsest) {
  std::vector<Difference> found;
  for (const Compared& each : compared) {
    const double absolute = distance(each.captured, each.own);
    if (absolute == 0) continue;
    const at::Tensor& one = each.own.defined() ? each.own : each.captured;
    found.push_back({each.name, absolute, largest(each.own), 0, one.scalar_type()});
  }
  if (found.empty()) return found;
  double of_all = 0;
  for (const Compared& each : compared) of_all = std::max(of_all, largest(each.own));
  for (Difference& each : found) {
    if (rounding_of(each.type) == 0) continue;
    each.type = coarser(each.type, coarsest);
    each.allowed = rounding_of(each.type) * std::max(each.largest, kSmallest * of_all);
  }
  return found;
}

}  // namespace ravnest::graph
