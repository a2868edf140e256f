#include "ravnest/strategy/communicate/ring_communicator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "ravnest/strategy/communicate/checks.h"
#include "ravnest/strategy/communicate/pending_sum.h"

namespace ravnest::strategy {
namespace {

// The transport tells of ranks that are lost.
constexpr TimePoint kNoDeadline = TimePoint::max();

template <class T>
std::span<T> values_of(const at::Tensor& flat) {
  return {flat.mutable_data_ptr<T>(), static_cast<std::size_t>(flat.numel())};
}

std::span<std::byte> bytes_of(const at::Tensor& flat) {
  return {static_cast<std::byte*>(flat.mutable_data_ptr()), flat.nbytes()};
}

collective::ReduceOptions options_of(Compression* compression) {
  if (compression == nullptr) return {};
  return {.codec = compression->codec, .residual = &compression->residual};
}

}  // namespace

RingCommunicator::RingCommunicator(transport::Endpoint& endpoint, std::vector<std::string> names, int rank)
    : rank_(rank),
      world_(static_cast<int>(names.size())),
      group_(endpoint, std::move(names), static_cast<std::size_t>(rank)),
      queue_([this](const Status& why) {
        group_.abort(why);
        passage_.stop(why);
      }) {}

std::shared_ptr<Pending> RingCommunicator::all_reduce(at::Tensor values, std::shared_ptr<Compression> compression) {
  check_numbers("all-reduce", values, compression.get());
  const Parts parts{all(values), all(values)};
  return begin(std::move(values), parts, [this, compression = std::move(compression)](const at::Tensor& host) {
    const auto options = options_of(compression.get());
    return host.scalar_type() == at::kFloat ? group_.all_reduce(values_of<float>(host), kNoDeadline, options)
                                            : group_.all_reduce(values_of<double>(host), kNoDeadline, options);
  });
}

std::shared_ptr<Pending> RingCommunicator::reduce_scatter(at::Tensor values, std::shared_ptr<Compression> compression) {
  check_numbers("reduce-scatter", values, compression.get());
  check_segments("reduce-scatter", values, world_);
  const Parts parts{all(values), own(values)};
  return begin(std::move(values), parts, [this, compression = std::move(compression)](const at::Tensor& host) {
    const auto options = options_of(compression.get());
    return host.scalar_type() == at::kFloat ? group_.reduce_scatter(values_of<float>(host), kNoDeadline, options)
                                            : group_.reduce_scatter(values_of<double>(host), kNoDeadline, options);
  });
}

std::shared_ptr<Pending> RingCommunicator::all_gather(at::Tensor values) {
  check_bits("all-gather", values);
  check_segments("all-gather", values, world_);
  const Parts parts{own(values), all(values)};
  return begin(std::move(values), parts,
               [this](const at::Tensor& host) { return group_.all_gather(bytes_of(host), kNoDeadline); });
}

std::shared_ptr<Pending> RingCommunicator::broadcast(at::Tensor values, int root) {
  check_bits("broadcast", values);
  check_root(root, world_);
  const Parts parts = root == rank_ ? Parts{all(values), {}} : Parts{{}, all(values)};
  return begin(std::move(values), parts, [this, root](const at::Tensor& host) {
    return group_.broadcast(bytes_of(host), static_cast<std::size_t>(root), kNoDeadline);
  });
}

std::shared_ptr<Pending> RingCommunicator::sum(std::span<double> values) { return begin_sum(values); }
std::shared_ptr<Pending> RingCommunicator::sum(std::span<std::int64_t> values) { return begin_sum(values); }

void RingCommunicator::abort(const Status& why) { queue_.abort(why); }

std::shared_ptr<Pending> RingCommunicator::begin(at::Tensor values, const Parts& parts, OnHost operation) {
  if (values.is_cpu()) {
    return queue_.add([values = std::move(values), operation = std::move(operation)] { return operation(values); });
  }
  auto ready = HostPassage::mark(values);
  return queue_.add([this, values = std::move(values), parts, operation = std::move(operation),
                     ready = std::move(ready)]() -> Status {
    const at::NoGradGuard no_record;
    const auto host = passage_.fetch(values, parts.read, *ready);
    if (!host.ok()) return host.status();
    if (Status done = operation(*host); !done.ok()) return done;
    return passage_.give_back(*host, values, parts.made);
  });
}

template <class T>
std::shared_ptr<Pending> RingCommunicator::begin_sum(std::span<T> values) {
  auto held = std::make_shared<std::vector<T>>(values.begin(), values.end());
  auto begun = queue_.add([this, held] { return group_.all_reduce(std::span(*held), kNoDeadline); });
  return std::make_shared<PendingSum<T>>(std::move(begun), std::move(held), values);
}

collective::Range RingCommunicator::own(const at::Tensor& values) const {
  return group_.own_segment(static_cast<std::size_t>(values.numel()));
}

collective::Range RingCommunicator::all(const at::Tensor& values) {
  return {0, static_cast<std::size_t>(values.numel())};
}

}  // namespace ravnest::strategy
