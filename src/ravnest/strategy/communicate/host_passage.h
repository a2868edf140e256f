// Flat tensors of a GPU as flat tensors of this host, for as long as an operation on them lasts.
//
// Copies go through pinned memory and over a stream of their own, beside what the GPU computes. The thread that waits
// for them sleeps: a synchronisation by the driver would keep a core busy. Used by one thread, but for `mark` and
// `stop`.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>

#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/collective/ring.h"
#include "ravnest/graph/run/pinned_memory.h"

namespace ravnest::strategy {

class HostPassage {
 public:
  // What the current stream has been given to do on the tensor's device so far.
  static std::shared_ptr<c10::Event> mark(const at::Tensor& values);

  // A tensor of this host, as long as `values`, with that part of them as it was when `ready` was made. Valid until the
  // next fetch.
  Result<at::Tensor> fetch(const at::Tensor& values, const collective::Range& part, const c10::Event& ready);
  // That part of what was fetched, back into the values it came from: they have it when this returns.
  Status give_back(const at::Tensor& host, const at::Tensor& values, const collective::Range& part);

  // Waits for the GPU, now and later, end with this reason.
  void stop(const Status& why);

 private:
  c10::Stream stream_of(const at::Tensor& values);
  Status wait_for_copies(c10::Stream stream);

  graph::PinnedMemory pinned_;
  std::optional<c10::Stream> stream_;
  Mutex mutex_;
  ConditionVariable stopped_;
  Status reason_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace ravnest::strategy
