// What the kernels are made of. Only for the files that are compiled with their flags (see CMakeLists.txt): for AVX2
// and FMA on x86, and without contraction, so that every fused multiply-add is written out. For the same reason nothing
// inline comes in from elsewhere: the linker might keep these files' copy of it.
#pragma once

#include <cstddef>

#include "ravnest/optim/rules/kernels.h"

namespace ravnest::optim::kernel {

[[gnu::always_inline]] inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
[[gnu::always_inline]] inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
[[gnu::always_inline]] inline float root_of(float x) { return __builtin_sqrtf(x); }
[[gnu::always_inline]] inline double root_of(double x) { return __builtin_sqrt(x); }

// Calls f with a value of each flag's own type, so that loops have no branches.
template <bool kValue>
struct Flag {
  static constexpr bool value = kValue;
};
template <class F>
void with_flags(bool a, bool b, const F& f) {
  if (a) {
    b ? f(Flag<true>(), Flag<true>()) : f(Flag<true>(), Flag<false>());
  } else {
    b ? f(Flag<false>(), Flag<true>()) : f(Flag<false>(), Flag<false>());
  }
}

template <class T>
struct Arrays {
  explicit Arrays(const Chunk& chunk)
      : parameter(static_cast<T*>(chunk.parameter)),
        gradient(static_cast<const T*>(chunk.gradient)),
        first(static_cast<T*>(chunk.state[0])),
        second(static_cast<T*>(chunk.state[1])),
        third(static_cast<T*>(chunk.state[2])),
        scale(static_cast<T*>(chunk.scale)) {}

  T* parameter;
  const T* gradient;
  T *first, *second, *third, *scale;
};

// Torch's lerp: from the nearer end.
template <class T>
struct Lerp {
  explicit Lerp(double share) : near(static_cast<T>(share) < T(0.5) && static_cast<T>(share) > T(-0.5)) {
    weight = near ? static_cast<T>(share) : static_cast<T>(share) - T(1);
  }
  [[gnu::always_inline]] T operator()(T from, T to) const { return fused(weight, to - from, near ? from : to); }

  T weight;
  bool near;
};

template <class T, bool kPenalty>
struct Gradient {
  Gradient(double weight_decay, bool maximize) : decay(static_cast<T>(weight_decay)), sign(maximize ? T(-1) : T(1)) {}
  [[gnu::always_inline]] T operator()(T gradient, T parameter) const {
    return kPenalty ? fused(decay, parameter, sign * gradient) : sign * gradient;
  }

  T decay, sign;
};

template <class T>
struct Square {
  Square(double square_keep, double square_share)
      : keep(static_cast<T>(square_keep)), share(static_cast<T>(square_share)) {}
  [[gnu::always_inline]] T operator()(T square, T d) const { return fused(share * d, d, square * keep); }

  T keep, share;
};

}  // namespace ravnest::optim::kernel
