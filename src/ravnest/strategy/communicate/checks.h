// What every backend asks of the tensors that it is given. What does not fit throws, with the operation's name.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "ravnest/strategy/communicate/communicator.h"

namespace ravnest::strategy {

// Flat, of float32 or float64; with a compression float32, of just as many elements.
void check_numbers(std::string_view operation, const at::Tensor& values, const Compression* compression);
// Flat, with elements of 1, 2, 4 or 8 bytes.
void check_bits(std::string_view operation, const at::Tensor& values);
// As many equal segments as there are ranks.
void check_segments(std::string_view operation, const at::Tensor& values, int world);
// One of the ranks.
void check_root(int root, int world);

}  // namespace ravnest::strategy
