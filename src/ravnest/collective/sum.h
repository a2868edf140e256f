// Sums of scaled vectors.
//
// Plain loops, which the compiler vectorises: in memory that is in use by the network as well, kernels for wider
// vectors were measured to be no faster. The product is rounded, then the sum, on every processor that the defaults
// compile for. Integers wrap around. Pure functions, safe from any thread. The spans of a call have one length and do
// not overlap.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace ravnest::collective {

// What a T is added up as.
template <class T>
using Summand = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

// a + scale * b
template <class T>
T scaled_sum(T a, T b, T scale) {
  return static_cast<T>(static_cast<Summand<T>>(a) + static_cast<Summand<T>>(scale) * static_cast<Summand<T>>(b));
}

// out = scale * a
template <class T>
void multiply(std::span<T> out, std::span<const T> a, T scale) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<T>(static_cast<Summand<T>>(scale) * static_cast<Summand<T>>(a[i]));
}

// out = a + scale * b
template <class T>
void add_scaled(std::span<T> out, std::span<const T> a, std::span<const T> b, T scale) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = scaled_sum(a[i], b[i], scale);
}

// out += scale * b
template <class T>
void accumulate(std::span<T> out, std::span<const T> b, T scale) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = scaled_sum(out[i], b[i], scale);
}

}  // namespace ravnest::collective
