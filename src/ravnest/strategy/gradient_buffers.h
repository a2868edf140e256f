// The gradients of all parameters in a few flat buffers, so that a reduction is one operation and not hundreds.
//
// There is a buffer for each unit of the chain and element type, and each parameter has a window of it, laid out as the
// parameter is: what the optimizer is given are these windows, and no gradient is copied after it has arrived. A rank
// that is alone has no buffers: its gradients are taken as they come. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/strategy/chain.h"
#include "ravnest/strategy/communicate/communicator.h"
#include "ravnest/strategy/communicate/waiter.h"

namespace ravnest::strategy {

class GradientBuffers {
 public:
  GradientBuffers(const Chain& chain, std::span<const at::Tensor> parameters, const codec::Codec& compression,
                  bool alone);

  // Adds gradients to their parameters' sums, which are of the parameters' types whatever the gradients' are;
  // `gradients` are those of `owned`, some of them undefined, and are given up. Into an empty buffer they are copied.
  void add(std::span<const std::size_t> owned, std::span<at::Tensor> gradients);
  // The unit's sums are complete: begins to add up those of all ranks. What no gradient came for counts as zero.
  void send(int unit, Communicator& communicator);
  // Until all that was sent is there.
  Status wait(const Waiter& wait);
  // Every parameter's window. After `wait` they hold the sums over all ranks. Undefined, where a rank is alone, for
  // those that no gradient came for.
  std::span<const at::Tensor> windows() const { return windows_; }
  // What the sums of all ranks would come to now, on all of them, by parameter; these stay as they are. Zero for those
  // that no rank has a gradient for, or undefined where a rank is alone. A collective operation, between passes.
  Result<std::vector<at::Tensor>> sums_so_far(Communicator& communicator, const Waiter& wait);
  // The sums begin anew.
  void clear();

 private:
  struct FlatBuffer {
    int unit = 0;
    at::Tensor flat;
    std::shared_ptr<Compression> compression;
    std::vector<std::size_t> parameters;
  };

  const std::vector<at::Tensor> parameters_;
  std::vector<FlatBuffer> buffers_;  // in the order in which backward completes them
  std::vector<at::Tensor> windows_;
  std::vector<bool> filled_;  // by parameter
  std::vector<std::shared_ptr<Pending>> pending_;
};

}  // namespace ravnest::strategy
