// A stage's tensors in versions: what a pass in flight began with stays as it was, while the optimizer goes on.
//
// The live parameters are tensors of lasting identity (an optimizer from outside may hold them). A version refers to
// the same memory through tensors of its own, on which a pass leaves autograd's record. Before an update the live
// parameters get new memory if, and only if, someone still holds the newest version; otherwise the update is in place.
// So there are never more copies of the weights than versions in use. Buffers are shared by all versions: passes run
// in order, and their statistics go on. What is frozen is shared too.
// One thread makes versions; a held version may be read by any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ravnest::optim {

struct Version {
  std::vector<at::Tensor> tensors;     // all of the stage's, in the order in which the store was given them
  std::vector<at::Tensor> parameters;  // those that are trained, as ParameterStore::parameters, each once
};

class ParameterStore {
 public:
  // Those that require a gradient are trained. A tensor that is given twice (tied names) is one parameter.
  explicit ParameterStore(std::span<const at::Tensor> tensors);

  // Hold it for as long as a pass needs it.
  std::shared_ptr<const Version> newest() const { return newest_; }
  // The live ones, to be written only between prepare and publish.
  std::span<const at::Tensor> parameters() const { return parameters_; }
  // Which parameter the i-th tensor is, or -1.
  int parameter_of(std::size_t tensor) const { return parameter_of_[tensor]; }

  // The live parameters may be written from here on.
  void prepare();
  // What was written is the newest version.
  void publish();

  // Versions that exist, the newest included.
  std::size_t alive() const;

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> parameters_;
  std::vector<int> parameter_of_;
  std::shared_ptr<const Version> newest_;
  mutable std::vector<std::weak_ptr<const Version>> held_;  // earlier ones, some of them gone by now
  bool moved_ = true;                                       // the live parameters' memory is not the newest version's
};

}  // namespace ravnest::optim
