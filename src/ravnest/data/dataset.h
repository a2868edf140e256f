// A data set in tensors, ready to be cut into batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "ravnest/base/status.h"
#include "ravnest/data/source.h"

namespace ravnest::data {

// On the CPU; the first dimension of both counts the samples. What load_dataset gives may be a mapped file: read it,
// never write to it. A plain value; copying it shares the tensors.
struct Dataset {
  at::Tensor inputs;
  at::Tensor targets;

  std::int64_t size() const { return inputs.defined() ? inputs.size(0) : 0; }
};

// Reads the files and takes the rows that are asked for, at least one.
//   inputs   reshaped to [rows, shape...]; then cast to inputs_dtype, if that is given; then multiplied by the scale,
//            for which whole numbers become float32
//   targets  whole numbers become int64, as the losses want their classes; with one_hot, float32 with one dimension
//   more
// uint16 and uint32 come as int32 and int64, which torch can compute with. kInvalid, with the numbers on both sides,
// where rows, shape or classes do not fit the data; kUnsupported for uint64; otherwise as read_source.
Result<Dataset> load_dataset(const DataOptions& options);

// The rows of that batch (see batches.h), in memory of their own. They have to be rows of the data set.
at::Tensor rows_of(const at::Tensor& samples, std::span<const std::int64_t> rows);
Dataset batch(const Dataset& dataset, std::span<const std::int64_t> rows);

}  // namespace ravnest::data
