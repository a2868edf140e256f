#include "ravnest/optim/rules/kernel_terms.h"

namespace ravnest::optim {
namespace {

using namespace kernel;

template <class T>
void sgd(const Chunk& chunk, const SgdPass& pass) {
  const Arrays<T> arrays(chunk);
  T* __restrict p = arrays.parameter;
  T* __restrict buffer = arrays.first;
  const T* __restrict g = arrays.gradient;
  const T momentum = static_cast<T>(pass.momentum), share = static_cast<T>(pass.share), lr = static_cast<T>(-pass.lr);
  with_flags(pass.weight_decay != 0, pass.nesterov, [&](auto penalty, auto nesterov) {
    const Gradient<T, decltype(penalty)::value> gradient(pass.weight_decay, pass.maximize);
    const auto direction = [&](T d, T b) { return decltype(nesterov)::value ? fused(momentum, b, d) : b; };
    if (pass.momentum == 0) {
#pragma GCC ivdep
      for (std::size_t i = 0; i < chunk.count; ++i) p[i] = fused(lr, gradient(g[i], p[i]), p[i]);
    } else if (pass.first) {
#pragma GCC ivdep
      for (std::size_t i = 0; i < chunk.count; ++i) {
        buffer[i] = gradient(g[i], p[i]);
        p[i] = fused(lr, direction(buffer[i], buffer[i]), p[i]);
      }
    } else {
#pragma GCC ivdep
      for (std::size_t i = 0; i < chunk.count; ++i) {
        const T d = gradient(g[i], p[i]);
        buffer[i] = fused(share, d, buffer[i] * momentum);
        p[i] = fused(lr, direction(d, buffer[i]), p[i]);
      }
    }
  });
}

template <class T>
struct Rmsprop {
  static void moments(const Chunk& chunk, const RmspropPass& pass) {
    const Arrays<T> arrays(chunk);
    const T* __restrict p = arrays.parameter;
    const T* __restrict g = arrays.gradient;
    T* __restrict square = arrays.first;
    T* __restrict mean = arrays.third;
    T* __restrict scale = arrays.scale;
    const Lerp<T> lerp(pass.share);
    const Square<T> next(pass.keep, pass.share);
    with_flags(pass.weight_decay != 0, pass.centered, [&](auto penalty, auto centered) {
      const Gradient<T, decltype(penalty)::value> gradient(pass.weight_decay, pass.maximize);
#pragma GCC ivdep
      for (std::size_t i = 0; i < chunk.count; ++i) {
        const T d = gradient(g[i], p[i]);
        square[i] = next(square[i], d);
        if constexpr (decltype(centered)::value) {
          mean[i] = lerp(mean[i], d);
          scale[i] = fused(-mean[i], mean[i], square[i]);
        } else {
          scale[i] = square[i];
        }
      }
    });
  }

  static void apply(const Chunk& chunk, const RmspropPass& pass) {
    const Arrays<T> arrays(chunk);
    T* __restrict p = arrays.parameter;
    T* __restrict buffer = arrays.second;
    const T* __restrict g = arrays.gradient;
    const T* __restrict scale = arrays.scale;
    const T eps = static_cast<T>(pass.eps), momentum = static_cast<T>(pass.momentum), lr = static_cast<T>(-pass.lr);
    with_flags(pass.weight_decay != 0, pass.momentum > 0, [&](auto penalty, auto buffered) {
      const Gradient<T, decltype(penalty)::value> gradient(pass.weight_decay, pass.maximize);
#pragma GCC ivdep
      for (std::size_t i = 0; i < chunk.count; ++i) {
        const T d = gradient(g[i], p[i]);
        if constexpr (decltype(buffered)::value) {
          buffer[i] = buffer[i] * momentum + d / (scale[i] + eps);
          p[i] = fused(lr, buffer[i], p[i]);
        } else {
          p[i] = p[i] + lr * d / (scale[i] + eps);
        }
      }
    });
  }
};

template <class T>
struct Adagrad {
  static void moments(const Chunk& chunk, const AdagradPass& pass) {
    const Arrays<T> arrays(chunk);
    const T* __restrict p = arrays.parameter;
    const T* __restrict g = arrays.gradient;
    T* __restrict sum = arrays.first;
    T* __restrict scale = arrays.scale;
    with_flags(pass.weight_decay != 0, false, [&](auto penalty, auto) {
      const Gradient<T, decltype(penalty)::value> gradient(pass.weight_decay, pass.maximize);
#pragma GCC ivdep
      for (std::size_t i = 0; i < chunk.count; ++i) {
        const T d = gradient(g[i], p[i]);
        sum[i] = fused(d, d, sum[i]);
        scale[i] = sum[i];
      }
    });
  }

  static void apply(const Chunk& chunk, const AdagradPass& pass) {
    const Arrays<T> arrays(chunk);
    T* __restrict p = arrays.parameter;
    const T* __restrict g = arrays.gradient;
    const T* __restrict scale = arrays.scale;
    const T eps = static_cast<T>(pass.eps), lr = static_cast<T>(-pass.lr);
    with_flags(pass.weight_decay != 0, false, [&](auto penalty, auto) {
      const Gradient<T, decltype(penalty)::value> gradient(pass.weight_decay, pass.maximize);
#pragma GCC ivdep
      for (std::size_t i = 0; i < chunk.count; ++i) p[i] = p[i] + lr * gradient(g[i], p[i]) / (scale[i] + eps);
    });
  }
};

}  // namespace

void sgd_pass(const Chunk& chunk, const SgdPass& pass) {
  chunk.doubles ? sgd<double>(chunk, pass) : sgd<float>(chunk, pass);
}
void rmsprop_moments(const Chunk& chunk, const RmspropPass& pass) {
  chunk.doubles ? Rmsprop<double>::moments(chunk, pass) : Rmsprop<float>::moments(chunk, pass);
}
void rmsprop_apply(const Chunk& chunk, const RmspropPass& pass) {
  chunk.doubles ? Rmsprop<double>::apply(chunk, pass) : Rmsprop<float>::apply(chunk, pass);
}
void adagrad_moments(const Chunk& chunk, const AdagradPass& pass) {
  chunk.doubles ? Adagrad<double>::moments(chunk, pass) : Adagrad<float>::moments(chunk, pass);
}
void adagrad_apply(const Chunk& chunk, const AdagradPass& pass) {
  chunk.doubles ? Adagrad<double>::apply(chunk, pass) : Adagrad<float>::apply(chunk, pass);
}

}  // namespace ravnest::optim
