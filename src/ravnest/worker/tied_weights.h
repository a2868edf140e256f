// Weights that several stages use: what a stage says to the others about them, and does with what they say.
//
// The first stage that uses a weight keeps it: it adds up the gradients of all, updates it, and hands its values to the
// others. The stage's machine waits for these messages whether or not there is anything in them, so each is always
// sent: a frozen weight is tied too.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/optim/store.h"
#include "ravnest/worker/worker.h"

namespace ravnest::worker {

class TiedWeights {
 public:
  // `names` are those of the store's tensors.
  TiedWeights(const ir::StageInfo& stage, const std::vector<std::string>& names, const optim::ParameterStore& store);

  // What the users of weights that are kept here sent, added up, by parameter; undefined where nothing came. This
  // stage's own gradients are to be added to it, not the other way round: so one process would do it.
  // kInvalid where something does not fit `parameters`; `agreed` as in from_wire.
  Result<std::vector<at::Tensor>> sum(std::vector<wire::TiedTensors> sent, std::span<const at::Tensor> parameters,
                                      const codec::Codec& agreed) const;
  // Takes the gradients of weights that are kept elsewhere out, as messages for their keepers.
  std::vector<Outgoing> take_out(std::span<at::Tensor> gradients, std::uint64_t number,
                                 const std::function<wire::Tensor(const at::Tensor&)>& pack) const;
  // The version's values, for the users of weights that are kept here. `host` as in to_wire.
  std::vector<Outgoing> values(std::uint64_t updates, const std::shared_ptr<const optim::Version>& version,
                               bool host) const;
  const std::vector<int>& keepers() const { return keepers_; }
  // The parameters that the stage keeps and that are used here.
  std::vector<std::size_t> kept_by(int stage) const;
  // Writes a keeper's values into the live parameters. kInvalid where they do not fit.
  Status adopt(const wire::TiedTensors& values, std::span<const at::Tensor> parameters) const;

 private:
  struct Weight {
    std::string name;
    std::size_t parameter = 0;
    int keeper = 0;
    std::vector<int> users;  // all but the keeper
  };
  const Weight* find(const std::string& name) const;
  // One for each of these stages, empty.
  std::vector<Outgoing> messages_for(const std::vector<int>& stages, bool gradients, std::uint64_t number) const;

  int self_;
  std::vector<Weight> weights_;  // those that are trained
  std::vector<int> keepers_;     // of weights used here
  std::vector<int> users_;       // of weights kept here
};

}  // namespace ravnest::worker
