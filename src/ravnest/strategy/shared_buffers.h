// Tensors of the model that become rank 0's: all of them when a run begins, then the buffers that training writes.
//
// They travel in one flat tensor for each element type. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/strategy/communicate/communicator.h"
#include "ravnest/strategy/communicate/waiter.h"

namespace ravnest::strategy {

class SharedBuffers {
 public:
  // Shares the memory of `tensors`.
  explicit SharedBuffers(const std::vector<at::Tensor>& tensors);

  // Takes rank 0's as they are now.
  void send(Communicator& communicator);
  // They have arrived, and stand in the tensors. Nothing where nothing was sent.
  Status wait(const Waiter& wait);

 private:
  struct Flat {
    std::vector<at::Tensor> tensors;
    at::Tensor values;
    std::shared_ptr<Pending> pending;
  };

  std::vector<Flat> flats_;
  bool takes_ = false;  // this rank is not rank 0
};

}  // namespace ravnest::strategy
