#include "ravnest/strategy/communicate/alone.h"

#include <utility>
#include <vector>

#include "ravnest/strategy/communicate/checks.h"
#include "ravnest/strategy/communicate/pending_sum.h"

namespace ravnest::strategy {
namespace {

class Ended final : public Pending {
 public:
  explicit Ended(Status how) : how_(std::move(how)) {}
  Status wait_until(TimePoint /*deadline*/) override { return how_; }

 private:
  const Status how_;
};

}  // namespace

std::shared_ptr<Pending> AloneCommunicator::complete() const {
  const MutexLock lock(mutex_);
  return std::make_shared<Ended>(broken_);
}

std::shared_ptr<Pending> AloneCommunicator::all_reduce(at::Tensor values, std::shared_ptr<Compression> compression) {
  check_numbers("all-reduce", values, compression.get());
  return complete();
}

std::shared_ptr<Pending> AloneCommunicator::reduce_scatter(at::Tensor values,
                                                           std::shared_ptr<Compression> compression) {
  check_numbers("reduce-scatter", values, compression.get());
  return complete();
}

std::shared_ptr<Pending> AloneCommunicator::all_gather(at::Tensor values) {
  check_bits("all-gather", values);
  return complete();
}

std::shared_ptr<Pending> AloneCommunicator::broadcast(at::Tensor values, int root) {
  check_bits("broadcast", values);
  check_root(root, world());
  return complete();
}

std::shared_ptr<Pending> AloneCommunicator::sum(std::span<double> values) { return complete_sum(values); }
std::shared_ptr<Pending> AloneCommunicator::sum(std::span<std::int64_t> values) { return complete_sum(values); }

template <class T>
std::shared_ptr<Pending> AloneCommunicator::complete_sum(std::span<T> values) const {
  auto held = std::make_shared<std::vector<T>>(values.begin(), values.end());
  return std::make_shared<PendingSum<T>>(complete(), std::move(held), values);
}

void AloneCommunicator::abort(const Status& why) {
  const MutexLock lock(mutex_);
  if (broken_.ok()) broken_ = why;
}

}  // namespace ravnest::strategy
