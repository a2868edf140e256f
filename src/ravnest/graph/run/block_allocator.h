// Where torch's tensors on the CPU get their memory in a process that trains.
#pragma once

#include <cstddef>

namespace ravnest::graph {

// Smaller tensors are left to the C library.
inline constexpr std::size_t kLargeBlock = 256 << 10;

// From here on torch takes the memory of large tensors on the CPU from a BlockCache, in the whole process and for the
// rest of its life: what a node takes is then what its plan says. Tensors that are there keep what they have. Once is
// enough; safe from any thread. A child of a fork goes on with it.
void keep_large_blocks();

}  // namespace ravnest::graph
