// How the ranks of a data-parallel run add up and share tensors: one interface, a backend behind it.
//
// All operations are asynchronous. They are carried out in the order of issue, which has to be the same on all ranks,
// as have the kind, the number and the type of what is exchanged, and the root. Each may begin before those before it
// have been waited for. What all ranks get has the same bits on all of them.
// Tensors are flat: contiguous, with at least one dimension, and on this communicator's device. They are replaced in
// place; until waited for, nobody else reads or changes them, but later operations on the same tensor may begin. On a
// GPU an operation takes what the current stream has made of them by the time of the call.
//
// Failure: a rank that is lost, or an abort, breaks the communicator. Every operation that is not complete by then, and
// every later one, ends with that first reason; what is in their tensors is of no use, and may still change until the
// communicator is gone. A tensor that does not fit (type, device, segments) is a defect of the caller's: it throws.
// Operations begin on one thread at a time; `abort` may be called from any. Destruction ends what is under way as
// kCancelled, and waits for nobody.
// testing/communicator_conformance.h is what every backend has to pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/codec/error_feedback.h"
#include "ravnest/strategy/communicate/pending.h"

namespace ravnest::strategy {

// How one flat buffer is compressed on its way. What an encoding loses of the buffer is part of its next reduction: so
// each buffer has one of these for as long as it lives. Used by the communicator alone while an operation is under way.
struct Compression {
  Compression(const codec::Codec& used, std::size_t elements) : codec(used), residual(elements) {}

  const codec::Codec codec;
  codec::ErrorFeedback residual;
};

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;

  // The sum over all ranks, on all of them. float32; float64 on the host, where the backend can. With two ranks it is
  // a + b to the bit. `compression` is for float32, and for backends that can; none: the values travel as they are.
  virtual std::shared_ptr<Pending> all_reduce(at::Tensor values,
                                              std::shared_ptr<Compression> compression = nullptr) = 0;

  // `values` is `world` equal segments: that of this rank becomes the sum, what is in the others is unspecified.
  virtual std::shared_ptr<Pending> reduce_scatter(at::Tensor values,
                                                  std::shared_ptr<Compression> compression = nullptr) = 0;

  // `values` is `world` equal segments: that of this rank goes to all others, and theirs come here. Any type whose
  // elements have 1, 2, 4 or 8 bytes: bits are moved, not numbers.
  virtual std::shared_ptr<Pending> all_gather(at::Tensor values) = 0;

  // Those of rank `root` go to all. Any type, as above.
  virtual std::shared_ptr<Pending> broadcast(at::Tensor values, int root) = 0;

  // Small sums on the host. They are taken at once, and replaced by the first `wait` that ends well: so whoever leaves
  // without waiting leaves nothing behind. Exact for integers, which wrap around; the same bits of doubles everywhere.
  virtual std::shared_ptr<Pending> sum(std::span<double> values) = 0;
  virtual std::shared_ptr<Pending> sum(std::span<std::int64_t> values) = 0;

  // Ends all that is under way, and all that comes: every wait returns `why`, which is not ok, at once. What is
  // complete may stay so. The first reason holds.
  virtual void abort(const Status& why) = 0;
};

}  // namespace ravnest::strategy
