// Where the kernels of kernels.h may stand in for torch's operators, and how they are run over a parameter.
#pragma once

#include <c10/util/FunctionRef.h>

#include <initializer_list>

#include "ravnest/optim/rule.h"
#include "ravnest/optim/rules/kernels.h"

namespace ravnest::optim {

constexpr std::size_t kChunk = 1 << 14;  // elements: four arrays of them fit in a processor's second cache
std::size_t chunks_of(const at::Tensor& tensor);

// Runs `pass` on chunk after chunk, by as many threads as torch has, where that gives what torch's operators would:
// floats or doubles on the CPU, dense, and all laid out alike. False, with nothing done, elsewhere. `state` says what
// becomes Chunk::state; undefined tensors become null.
bool in_chunks(const Slot& slot, std::initializer_list<std::size_t> state,
               c10::function_ref<void(const Chunk& chunk, std::size_t number)> pass);

// The same for a kernel in two halves, with torch's square roots between them.
bool in_halves(const Slot& slot, std::initializer_list<std::size_t> state,
               c10::function_ref<void(const Chunk& chunk)> moments, c10::function_ref<void(const Chunk& chunk)> apply);

// Whether this processor runs the kernels, and torch's operators multiply and add as they do. Found out once.
bool kernels_agree();

}  // namespace ravnest::optim
