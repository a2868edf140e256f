#include "ravnest/optim/rules/kernel_terms.h"

namespace ravnest::optim {
namespace {

using namespace kernel;

template <class T>
struct Adam {
  static void moments(const Chunk& chunk, const AdamPass& pass) {
    const Arrays<T> arrays(chunk);
    const T* __restrict p = arrays.parameter;
    const T* __restrict g = arrays.gradient;
    T* __restrict mean = arrays.first;
    T* __restrict square = arrays.second;
    T* __restrict most = arrays.third;
    T* __restrict scale = arrays.scale;
    const Lerp<T> lerp(pass.moments.mean_share);
    const Square<T> next(pass.moments.square_keep, pass.moments.square_share);
    with_flags(pass.moments.weight_decay != 0, pass.amsgrad, [&](auto penalty, auto amsgrad) {
      const Gradient<T, decltype(penalty)::value> gradient(pass.moments.weight_decay, pass.moments.maximize);
#pragma GCC ivdep
      for (std::size_t i = 0; i < chunk.count; ++i) {
        const T d = gradient(g[i], p[i]);
        mean[i] = lerp(mean[i], d);
        square[i] = next(square[i], d);
        if constexpr (decltype(amsgrad)::value) {
          most[i] = square[i] > most[i] || square[i] != square[i] ? square[i] : most[i];
          scale[i] = most[i];
        } else {
          scale[i] = square[i];
        }
      }
    });
  }

  static void apply(const Chunk& chunk, const AdamPass& pass) {
    const Arrays<T> arrays(chunk);
    T* __restrict p = arrays.parameter;
    const T* __restrict mean = arrays.first;
    const T* __restrict scale = arrays.scale;
    const T decay = static_cast<T>(pass.decay), root = static_cast<T>(pass.root), eps = static_cast<T>(pass.eps);
    const T stride = static_cast<T>(pass.stride);
#pragma GCC ivdep
    for (std::size_t i = 0; i < chunk.count; ++i) p[i] = p[i] * decay + stride * mean[i] / (scale[i] / root + eps);
  }
};

template <class T>
struct Nadam {
  static void moments(const Chunk& chunk, const NadamPass& pass) {
    const Arrays<T> arrays(chunk);
    const T* __restrict p = arrays.parameter;
    const T* __restrict g = arrays.gradient;
    T* __restrict mean = arrays.first;
    T* __restrict square = arrays.second;
    T* __restrict scale = arrays.scale;
    const Lerp<T> lerp(pass.moments.mean_share);
    const Square<T> next(pass.moments.square_keep, pass.moments.square_share);
    const T correction = static_cast<T>(pass.correction);
    with_flags(pass.moments.weight_decay != 0, false, [&](auto penalty, auto) {
      const Gradient<T, decltype(penalty)::value> gradient(pass.moments.weight_decay, pass.moments.maximize);
#pragma GCC ivdep
      for (std::size_t i = 0; i < chunk.count; ++i) {
        const T d = gradient(g[i], p[i]);
        mean[i] = lerp(mean[i], d);
        square[i] = next(square[i], d);
        scale[i] = square[i] / correction;
      }
    });
  }

  static void apply(const Chunk& chunk, const NadamPass& pass) {
    const Arrays<T> arrays(chunk);
    T* __restrict p = arrays.parameter;
    const T* __restrict g = arrays.gradient;
    const T* __restrict mean = arrays.first;
    const T* __restrict scale = arrays.scale;
    const T decay = static_cast<T>(pass.decay), eps = static_cast<T>(pass.eps);
    const T gradient_stride = static_cast<T>(pass.gradient_stride), mean_stride = static_cast<T>(pass.mean_stride);
    with_flags(pass.moments.weight_decay != 0, false, [&](auto penalty, auto) {
      const Gradient<T, decltype(penalty)::value> gradient(pass.moments.weight_decay, pass.moments.maximize);
#pragma GCC ivdep
      for (std::size_t i = 0; i < chunk.count; ++i) {
        const T d = gradient(g[i], p[i]);
        const T divisor = scale[i] + eps;
        p[i] = (p[i] * decay + gradient_stride * d / divisor) + mean_stride * mean[i] / divisor;
      }
    });
  }
};

template <class T>
struct Direction {
  explicit Direction(const LambPass& pass)
      : correction(static_cast<T>(pass.correction)),
        root(static_cast<T>(pass.root)),
        eps(static_cast<T>(pass.eps)),
        decay(static_cast<T>(pass.weight_decay)) {}
  [[gnu::always_inline]] T operator()(T parameter, T mean, T square) const {
    return fused(decay, parameter, mean / correction / (root_of(square) / root + eps));
  }

  T correction, root, eps, decay;
};

// In double precision, in four lanes twice over.
template <class T>
double sum_of_squares(const T* values, std::size_t count) {
  constexpr std::size_t kLanes = 4;
  using Doubles [[gnu::vector_size(kLanes * sizeof(double))]] = double;
  using Values [[gnu::vector_size(kLanes * sizeof(T))]] = T;
  Doubles even = {}, odd = {};
  std::size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    Values some, others;
    __builtin_memcpy(&some, values + i, sizeof some);
    __builtin_memcpy(&others, values + i + kLanes, sizeof others);
    const Doubles wide = __builtin_convertvector(some, Doubles), wider = __builtin_convertvector(others, Doubles);
    even += wide * wide;
    odd += wider * wider;
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (std::size_t lane = 0; lane < kLanes; ++lane) sum += even[lane] + odd[lane];
  return sum;
}

template <class T>
Lengths moments(const Chunk& chunk, const LambPass& pass) {
  const Arrays<T> arrays(chunk);
  const T* __restrict p = arrays.parameter;
  const T* __restrict g = arrays.gradient;
  T* __restrict mean = arrays.first;
  T* __restrict square = arrays.second;
  T* __restrict step = arrays.scale;
  const Lerp<T> lerp(pass.moments.mean_share);
  const Square<T> next(pass.moments.square_keep, pass.moments.square_share);
  const Gradient<T, false> gradient(0, pass.moments.maximize);
  const Direction<T> direction(pass);
#pragma GCC ivdep
  for (std::size_t i = 0; i < chunk.count; ++i) {
    const T d = gradient(g[i], p[i]);
    mean[i] = lerp(mean[i], d);
    square[i] = next(square[i], d);
    step[i] = direction(p[i], mean[i], square[i]);
  }
  return {sum_of_squares(p, chunk.count), sum_of_squares(step, chunk.count)};
}

template <class T>
void lamb(const Chunk& chunk, const LambPass& pass, double stride) {
  const Arrays<T> arrays(chunk);
  T* __restrict p = arrays.parameter;
  const T* __restrict mean = arrays.first;
  const T* __restrict square = arrays.second;
  const Direction<T> direction(pass);
  const T step = static_cast<T>(stride);
#pragma GCC ivdep
  for (std::size_t i = 0; i < chunk.count; ++i) p[i] = fused(step, direction(p[i], mean[i], square[i]), p[i]);
}

}  // namespace

void adam_moments(const Chunk& chunk, const AdamPass& pass) {
  chunk.doubles ? Adam<double>::moments(chunk, pass) : Adam<float>::moments(chunk, pass);
}
void adam_apply(const Chunk& chunk, const AdamPass& pass) {
  chunk.doubles ? Adam<double>::apply(chunk, pass) : Adam<float>::apply(chunk, pass);
}
void nadam_moments(const Chunk& chunk, const NadamPass& pass) {
  chunk.doubles ? Nadam<double>::moments(chunk, pass) : Nadam<float>::moments(chunk, pass);
}
void nadam_apply(const Chunk& chunk, const NadamPass& pass) {
  chunk.doubles ? Nadam<double>::apply(chunk, pass) : Nadam<float>::apply(chunk, pass);
}
Lengths lamb_moments(const Chunk& chunk, const LambPass& pass) {
  return chunk.doubles ? moments<double>(chunk, pass) : moments<float>(chunk, pass);
}
void lamb_apply(const Chunk& chunk, const LambPass& pass, double stride) {
  chunk.doubles ? lamb<double>(chunk, pass, stride) : lamb<float>(chunk, pass, stride);
}

}  // namespace ravnest::optim
