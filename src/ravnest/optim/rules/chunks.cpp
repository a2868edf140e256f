#include "ravnest/optim/rules/chunks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <memory>

namespace ravnest::optim {
namespace {

bool processor_has_them() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF)
  return true;
#else
  return false;
#endif
}

// Numbers with all their bits in use; not random, since generators belong to the user.
at::Tensor uneven(double phase, at::ScalarType dtype) {
  return at::arange(1, 1024, at::kDouble).mul_(phase).sin_().add_(1.5).to(dtype);
}

template <class T, class F>
bool each(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const F& expected) {
  const T *r = result.const_data_ptr<T>(), *x = a.const_data_ptr<T>(), *y = b.const_data_ptr<T>();
  const T* z = c.const_data_ptr<T>();
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    if (r[i] != expected(x[i], y[i], z[i])) return false;
  }
  return true;
}

template <class T>
bool operators_agree() {
  const at::NoGradGuard no_grad;
  const at::ScalarType dtype = c10::CppTypeToScalarType<T>::value;
  const at::Tensor a = uneven(0.7, dtype), b = uneven(1.3, dtype), c = uneven(2.1, dtype);
  const T w = static_cast<T>(0.1), v = static_cast<T>(0.9);
  return each<T>(a.add(b, 0.1), a, b, c, [&](T x, T y, T) { return std::fma(w, y, x); }) &&
         each<T>(a.addcmul(b, c, 0.1), a, b, c, [&](T x, T y, T z) { return std::fma(w * y, z, x); }) &&
         each<T>(a.lerp(b, 0.1), a, b, c, [&](T x, T y, T) { return std::fma(w, y - x, x); }) &&
         each<T>(a.lerp(b, 0.9), a, b, c, [&](T x, T y, T) { return std::fma(v - 1, y - x, y); }) &&
         each<T>(a.addcdiv(b, c, 0.1), a, b, c, [&](T x, T y, T z) { return x + w * y / z; }) &&
         each<T>(a.div(0.1), a, b, c, [&](T x, T, T) { return x / w; });
}

bool suits(const Slot& slot, const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == slot.parameter.scalar_type() &&
         tensor.strides() == slot.parameter.strides();
}

}  // namespace

bool kernels_agree() {
  static const bool agree = processor_has_them() && operators_agree<float>() && operators_agree<double>();
  return agree;
}

std::size_t chunks_of(const at::Tensor& tensor) {
  return (static_cast<std::size_t>(tensor.numel()) + kChunk - 1) / kChunk;
}

bool in_chunks(const Slot& slot, std::initializer_list<std::size_t> state,
               c10::function_ref<void(const Chunk& chunk, std::size_t number)> pass) {
  const at::Tensor& parameter = slot.parameter;
  const bool doubles = parameter.scalar_type() == at::kDouble;
  if (!parameter.is_cpu() || !(doubles || parameter.scalar_type() == at::kFloat)) return false;
  if (!parameter.is_non_overlapping_and_dense() || !suits(slot, slot.gradient) || !kernels_agree()) return false;

  std::array<char*, std::tuple_size_v<decltype(Chunk::state)>> starts{};
  std::size_t next = 0;
  for (const std::size_t index : state) {
    const at::Tensor& tensor = (*slot.memory)[index];
    if (tensor.defined() && !suits(slot, tensor)) return false;
    starts[next++] = tensor.defined() ? static_cast<char*>(tensor.mutable_data_ptr()) : nullptr;
  }
  char* const values = static_cast<char*>(parameter.mutable_data_ptr());
  const char* const gradient = static_cast<const char*>(slot.gradient.const_data_ptr());
  const std::size_t size = doubles ? sizeof(double) : sizeof(float);
  const auto total = static_cast<std::size_t>(parameter.numel());
  at::parallel_for(0, static_cast<std::int64_t>(chunks_of(parameter)), 1, [&](std::int64_t begin, std::int64_t end) {
    const auto scratch = std::make_unique_for_overwrite<std::byte[]>(std::min(kChunk, total) * size);
    for (auto number = static_cast<std::size_t>(begin); number < static_cast<std::size_t>(end); ++number) {
      const std::size_t at = number * kChunk;
      Chunk chunk{values + at * size, gradient + at * size, {}, scratch.get(), std::min(kChunk, total - at), doubles};
      for (std::size_t i = 0; i < starts.size(); ++i)
        chunk.state[i] = starts[i] == nullptr ? nullptr : starts[i] + at * size;
      pass(chunk, number);
    }
  });
  // As every operator that writes in place, so that autograd notices a tensor that it still needs.
  if (!parameter.is_inference()) parameter.unsafeGetTensorImpl()->bump_version();
  return true;
}

bool in_halves(const Slot& slot, std::initializer_list<std::size_t> state,
               c10::function_ref<void(const Chunk& chunk)> moments, c10::function_ref<void(const Chunk& chunk)> apply) {
  return in_chunks(slot, state, [&](const Chunk& chunk, std::size_t) {
    moments(chunk);
    {
      const at::AutoDispatchBelowADInplaceOrView plain;
      at::from_blob(chunk.scale, {static_cast<std::int64_t>(chunk.count)}, slot.parameter.scalar_type()).sqrt_();
    }
    apply(chunk);
  });
}

}  // namespace ravnest::optim
