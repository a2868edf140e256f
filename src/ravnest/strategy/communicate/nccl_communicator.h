// Collectives by NCCL, among ranks that have a GPU each.
//
// Operations run on a stream of their own, of high priority. One begins when the current stream has done what it was
// given before the call, and what the current stream is given after `wait` begins when the operation is done; so a
// `wait` for a tensor does not make the host wait for the GPU, and tells only of failures that are known by then. A
// `wait` for a sum does make it wait, and tells of all: whoever keeps results should have waited for one.
//
// Failure: NCCL itself sees that a rank is gone where it goes over the network, within milliseconds, but not which.
// Over NVLink and shared memory it sees nothing. So the caller, who has a connection to each rank, is to call `abort`
// with a reason that names the rank; it holds if it comes within `time_for_reason`. Either stops the GPU's part too, so
// that nothing stays behind on which the host might wait.
// NCCL does not encrypt, and takes connections from whoever knows its id.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/strategy/communicate/communicator.h"
#include "ravnest/strategy/communicate/waiter.h"

namespace ravnest::strategy {

struct NcclOptions {
  int rank = 0;
  int world = 1;
  c10::Device device{c10::kCUDA, 0};
  // Gives rank 0's bytes to all others, over a connection that is there already; every rank calls it once, where there
  // is more than one.
  std::function<Status(std::span<std::byte>)> share_from_first = {};
  Duration time_for_reason = std::chrono::seconds(1);
  // Instead of torch's. Tensors of the host are taken with such a one only, which has to work in the memory of the
  // host.
  std::filesystem::path library = {};
};

class NcclCommunicator final : public Communicator {
 public:
  // Loads the library. Fails as `load_nccl`.
  static Result<std::unique_ptr<NcclCommunicator>> open(NcclOptions options);
  ~NcclCommunicator() override;

  // Of NCCL: "2.28.9".
  const std::string& version() const;

  // Finds the other ranks; once, before the first operation. `abort` ends it, and so does `wait` where it fails.
  // kUnavailable where they have not found each other by the deadline.
  Status connect(
      TimePoint deadline, const Waiter& wait = [](Pending& pending) { return pending.wait(); });

  int rank() const override { return options_.rank; }
  int world() const override { return options_.world; }

  // Sums of float64, float16 and bfloat16 are taken too. Values travel as they are, whatever `compression` says.
  std::shared_ptr<Pending> all_reduce(at::Tensor values, std::shared_ptr<Compression> compression) override;
  std::shared_ptr<Pending> reduce_scatter(at::Tensor values, std::shared_ptr<Compression> compression) override;
  std::shared_ptr<Pending> all_gather(at::Tensor values) override;
  std::shared_ptr<Pending> broadcast(at::Tensor values, int root) override;
  // Doubles are added in the order of ranks, by each rank for itself.
  std::shared_ptr<Pending> sum(std::span<double> values) override;
  std::shared_ptr<Pending> sum(std::span<std::int64_t> values) override;
  void abort(const Status& why) override;

 private:
  // What the calls of NCCL and the waits for them share; a wait may come when the communicator is gone.
  struct Link;
  template <class T>
  class Sum;
  class InPlace;
  class Start;

  NcclCommunicator(NcclOptions options, std::shared_ptr<Link> link);
  template <class Call>
  std::shared_ptr<Pending> in_place(const char* what, at::Tensor values, Call call);
  template <class T>
  std::shared_ptr<Pending> sum_of(std::span<T> values);

  const NcclOptions options_;
  const std::shared_ptr<Link> link_;
};

}  // namespace ravnest::strategy
