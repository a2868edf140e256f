// How a batch is cut into passes. The one place that cuts inputs; the leaf cuts its labels by the same rule, that of
// torch's tensor_split: where it does not come out even, the first parts have one row more.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ravnest/stage/stage.h"

namespace ravnest::cluster {

struct Microbatch {
  stage::Offer offer;
  std::vector<at::Tensor> inputs;
};

// The rows of the first input that has any; 1 for a model whose inputs have none.
std::uint64_t samples_of(const std::vector<at::Tensor>& inputs);

// `batch` as passes in order, each with its part, weight and samples; the last one updates where `batch` says so. A
// batch that trains is cut into `microbatches`, or as many as it has rows; others stay whole. Inputs without a row for
// each sample go with every part.
std::vector<Microbatch> cut_batch(const stage::Offer& batch, const std::vector<at::Tensor>& inputs,
                                  std::uint32_t microbatches);

}  // namespace ravnest::cluster
