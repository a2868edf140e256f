// The tensors of a stage that take part in averaging between clusters: those that are trained, and the statistics that
// training keeps.
//
// A stage gives them averaging group by averaging group (plan/averaging_groups.h), as floats, and gets means back.
// Where it has trained on meanwhile, what the round made of them is added as a difference. Weights that another stage
// keeps are not among them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ravnest/average/averaging.h"
#include "ravnest/base/status.h"
#include "ravnest/checkpoint/state/part_state.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/optim/store.h"
#include "ravnest/worker/staging.h"

namespace ravnest::worker {

class GroupTensors {
 public:
  // For each averaging group of the stage the names of its tensors, in the averaging group's order; `names` and
  // `tensors` are the engine's. Of those that training neither updates nor writes nothing is averaged, nor of those
  // that are no floating-point numbers.
  GroupTensors(const std::vector<std::vector<std::string>>& averaging_groups, std::span<const std::string> names,
               std::span<const at::Tensor> tensors, std::span<const std::size_t> written,
               const optim::ParameterStore& store);

  // What an averaging group's parameters have beside their values, by their names, which are `names` of the store's;
  // and back, of those that are there. Of nothing, or of zeros alone, nothing.
  checkpoint::RecordTensors named(const std::vector<std::vector<float>>& by_group, std::span<const std::string> names,
                                  const optim::ParameterStore& store) const;
  Result<std::vector<std::vector<float>>> by_group(const archive::NamedPayloads& named,
                                                   std::span<const std::string> names,
                                                   const optim::ParameterStore& store) const;

  // Of parameters of 16 bits, what a round has come to; and back, into `values`, of those that are there.
  checkpoint::RecordTensors beyond_16_bits(const average::StageValues& mean, std::span<const std::string> names,
                                           const optim::ParameterStore& store) const;
  Status take_beyond_16_bits(const archive::NamedPayloads& named, std::span<const std::string> names,
                             const optim::ParameterStore& store, average::StageValues& values) const;

  // With what `optimizer` keeps, unless that is null.
  average::StageValues values(const optim::ParameterStore& store, const optim::Optimizer* optimizer);
  // Into the live parameters, between prepare and publish. `unchanged`: nothing was trained since they were given, so
  // that they become what all others have, to the bit.
  Status take_in(const average::RoundResult& result, bool unchanged, const optim::ParameterStore& store,
                 optim::Optimizer* optimizer);

 private:
  struct Contents {
    std::vector<std::size_t> parameters;  // of the store
    std::vector<at::Tensor> statistics;
  };
  std::vector<Contents> averaging_groups_;
  Staging staging_;
};

}  // namespace ravnest::worker
