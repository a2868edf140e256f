// Sums of scaled vectors.
//
// Plain loops, which the compiler vectorises: in memory that is in use by the network as well, kernels for wider
// vectors were measured to be no faster. The product is rounded, then the sum, on every processor that the defaults
// compile for. Pure functions, safe from any thread. The spans of a call have one length and do not overlap.
#pragma once

#include <cstddef>
#include <span>

namespace ravnest::collective {

// out = scale * a
template <class T>
void multiply(std::span<T> out, std::span<const T> a, T scale) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = scale * a[i];
}

// out = a + scale * b
template <class T>
void add_scaled(std::span<T> out, std::span<const T> a, std::span<const T> b, T scale) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = a[i] + scale * b[i];
}

// out += scale * b
template <class T>
void accumulate(std::span<T> out, std::span<const T> b, T scale) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += scale * b[i];
}

}  // namespace ravnest::collective
