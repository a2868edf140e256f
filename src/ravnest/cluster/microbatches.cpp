#include "ravnest/cluster/microbatches.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace ravnest::cluster {
namespace {

bool has_samples(const at::Tensor& input, std::uint64_t samples) {
  return input.defined() && input.dim() > 0 && static_cast<std::uint64_t>(input.size(0)) == samples;
}

}  // namespace

std::uint64_t samples_of(const std::vector<at::Tensor>& inputs) {
  for (const at::Tensor& input : inputs) {
    if (input.defined() && input.dim() > 0) return static_cast<std::uint64_t>(input.size(0));
  }
  return 1;
}

std::vector<Microbatch> cut_batch(const stage::Offer& batch, const std::vector<at::Tensor>& inputs,
                                  std::uint32_t microbatches) {
  const std::uint64_t samples = samples_of(inputs);
  const bool trains = batch.kind == wire::PassKind::kTrain;
  const auto parts = static_cast<std::uint32_t>(
      trains ? std::clamp<std::uint64_t>(microbatches, 1, std::max<std::uint64_t>(samples, 1)) : 1);
  std::vector<Microbatch> cut(parts, {batch, inputs});
  for (std::uint32_t part = 0; part < parts; ++part) {
    const std::uint64_t rows = samples / parts + (part < samples % parts ? 1 : 0);
    stage::Offer& offer = cut[part].offer;
    offer.part = part;
    offer.parts = parts;
    offer.weight = parts == 1 ? 1 : static_cast<double>(rows) / static_cast<double>(samples);
    offer.update = batch.update && part + 1 == parts;
    if (!offer.update) offer.checkpoint = 0;
    offer.samples = rows;
  }
  if (parts == 1) return cut;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!has_samples(inputs[i], samples)) continue;
    const std::vector<at::Tensor> pieces = inputs[i].tensor_split(parts);
    for (std::uint32_t part = 0; part < parts; ++part) cut[part].inputs[i] = pieces[part];
  }
  return cut;
}

}  // namespace ravnest::cluster
