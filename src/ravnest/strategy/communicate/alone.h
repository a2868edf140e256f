// The communicator of a run that has one rank: every operation is complete at once.
#pragma once

#include "ravnest/base/mutex.h"
#include "ravnest/strategy/communicate/communicator.h"

namespace ravnest::strategy {

class AloneCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int world() const override { return 1; }
  std::shared_ptr<Pending> all_reduce(at::Tensor values, std::shared_ptr<Compression> compression) override;
  std::shared_ptr<Pending> reduce_scatter(at::Tensor values, std::shared_ptr<Compression> compression) override;
  std::shared_ptr<Pending> all_gather(at::Tensor values) override;
  std::shared_ptr<Pending> broadcast(at::Tensor values, int root) override;
  std::shared_ptr<Pending> sum(std::span<double> values) override;
  std::shared_ptr<Pending> sum(std::span<std::int64_t> values) override;
  void abort(const Status& why) override;

 private:
  std::shared_ptr<Pending> complete() const;
  template <class T>
  std::shared_ptr<Pending> complete_sum(std::span<T> values) const;

  mutable Mutex mutex_;
  Status broken_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace ravnest::strategy
