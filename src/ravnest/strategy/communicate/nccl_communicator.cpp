#include "ravnest/strategy/communicate/nccl_communicator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "ravnest/base/text.h"
#include "ravnest/strategy/communicate/checks.h"
#include "ravnest/strategy/communicate/device_stream.h"
#include "ravnest/strategy/communicate/nccl_library.h"
#include "ravnest/strategy/communicate/nccl_thread.h"

namespace ravnest::strategy {

using at::Tensor;

struct NcclCommunicator::Link {
  Link(const NcclLibrary& loaded, const NcclOptions& options)
      : library(loaded),
        device(options.device),
        stream(options.device),
        thread(loaded, {.rank = options.rank,
                        .world = options.world,
                        .time_for_reason = options.time_for_reason,
                        .prepare = [this] { stream.enter(); }}) {}

  // Waits for a task to be taken and then as `hold_up` does, which says whether it was in time; else kDeadline.
  template <class HoldUp>
  Status finish(std::uint64_t task, TimePoint deadline, HoldUp hold_up) {
    if (Status status = thread.wait_until_taken(task, deadline); !status.ok()) return status;
    try {
      if (!hold_up()) return ravnest::deadline("the operation is not complete yet");
    } catch (const c10::Error& error) {
      thread.abort(unavailable("the device ", device, " failed: ", error.what_without_backtrace()));
    }
    return thread.outcome_of(task);
  }

  const NcclLibrary library;
  const c10::Device device;
  const DeviceStream stream;
  NcclThread thread;
};

namespace {

nccl::Type number_type(const Tensor& values) {
  switch (values.scalar_type()) {
    case at::kFloat: return nccl::kFloat32;
    case at::kDouble: return nccl::kFloat64;
    case at::kHalf: return nccl::kFloat16;
    case at::kBFloat16: return nccl::kBfloat16;
    default: TORCH_CHECK(false, "sums are of floating-point numbers, not of ", values.scalar_type());
  }
}

// What is added wraps around; to add signed integers that way is undefined in C++.
template <class T>
T added(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

}  // namespace

class NcclCommunicator::InPlace final : public Pending {
 public:
  struct Progress {
    Tensor values;  // kept from others' use: the task holds this until the operation is complete
    StreamMark begin;
    std::optional<StreamMark> end;  // set when the task is taken
  };

  InPlace(std::shared_ptr<Link> link, std::shared_ptr<Progress> progress, std::uint64_t task)
      : link_(std::move(link)), progress_(std::move(progress)), task_(task) {}

  Status wait_until(TimePoint deadline) override {
    if (!outcome_) {
      Status ended = link_->finish(task_, deadline, [&] {
        progress_->end->hold_up_current_stream();
        return true;
      });
      if (ended.code() == Code::kDeadline) return ended;
      outcome_ = std::move(ended);
      // The allocator gives freed memory to the stream that it was made for, which is behind the operation now.
      if (outcome_->ok() && progress_->begin.is_of_current_stream()) progress_->values.reset();
    }
    return *outcome_;
  }

 private:
  const std::shared_ptr<Link> link_;
  const std::shared_ptr<Progress> progress_;
  const std::uint64_t task_;
  std::optional<Status> outcome_;
};

template <class T>
class NcclCommunicator::Sum final : public Pending {
 public:
  // As 64 bits each, whatever they mean: they are only moved.
  struct Progress {
    Tensor own;
    Tensor on_device;
    Tensor all;
    std::optional<StreamMark> end;
  };

  Sum(std::shared_ptr<Link> link, std::shared_ptr<Progress> progress, std::uint64_t task, std::span<T> values)
      : link_(std::move(link)), progress_(std::move(progress)), task_(task), values_(values) {}

  Status wait_until(TimePoint deadline) override {
    if (!outcome_) {
      Status ended = link_->finish(task_, deadline, [&] { return progress_->end->hold_up_host(deadline); });
      if (ended.code() == Code::kDeadline) return ended;
      outcome_ = std::move(ended);
      if (outcome_->ok()) add();
    }
    return *outcome_;
  }

 private:
  void add() {
    const auto* bytes = static_cast<const std::byte*>(progress_->all.const_data_ptr());
    const std::size_t ranks = values_.empty() ? 0 : progress_->all.numel() / values_.size();
    for (std::size_t i = 0; i < values_.size(); ++i) {
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        T value;
        std::memcpy(&value, bytes + (rank * values_.size() + i) * sizeof(T), sizeof(T));
        values_[i] = rank == 0 ? value : added(values_[i], value);
      }
    }
  }

  const std::shared_ptr<Link> link_;
  const std::shared_ptr<Progress> progress_;
  const std::uint64_t task_;
  const std::span<T> values_;
  std::optional<Status> outcome_;
};

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::open(NcclOptions options) {
  TORCH_CHECK(options.rank >= 0 && options.rank < options.world, "rank ", options.rank, " of ", options.world);
  if (options.device.is_cpu() && options.library.empty()) {
    return unsupported("NCCL connects GPUs, and rank ", options.rank, " computes on ", options.device);
  }
  const Result<NcclLibrary> library = load_nccl(options.library);
  if (!library.ok()) return library.status();
  try {
    auto link = std::make_shared<Link>(*library, options);
    return std::unique_ptr<NcclCommunicator>(new NcclCommunicator(std::move(options), std::move(link)));
  } catch (const c10::Error& error) {
    return unavailable("NCCL cannot use ", options.device, ": ", error.what_without_backtrace());
  }
}

NcclCommunicator::NcclCommunicator(NcclOptions options, std::shared_ptr<Link> link)
    : options_(std::move(options)), link_(std::move(link)) {}

NcclCommunicator::~NcclCommunicator() { link_->thread.close(); }

const std::string& NcclCommunicator::version() const { return link_->library.version; }

class NcclCommunicator::Start final : public Pending {
 public:
  Start(std::shared_ptr<Link> link, std::uint64_t task) : link_(std::move(link)), task_(task) {}

  Status wait_until(TimePoint deadline) override { return link_->thread.wait_until_taken(task_, deadline); }

 private:
  const std::shared_ptr<Link> link_;
  const std::uint64_t task_;
};

Status NcclCommunicator::connect(TimePoint deadline, const Waiter& wait) {
  nccl::UniqueId id;
  if (options_.rank == 0) {
    if (const nccl::Outcome outcome = link_->library.get_unique_id(&id); outcome != nccl::kSuccess) {
      return unavailable("NCCL gives no id: ", nccl_reason(link_->library, outcome, nullptr));
    }
  }
  if (options_.world > 1) {
    if (Status status = options_.share_from_first(id.bytes); !status.ok()) {
      return status.with_context("NCCL's id did not get from rank 0 to all");
    }
  }
  Start started(link_, link_->thread.start(id, deadline));
  return wait(started);
}

std::shared_ptr<Pending> NcclCommunicator::all_reduce(Tensor values, std::shared_ptr<Compression> /*compression*/) {
  check_bits("all-reduce", values);
  const nccl::Type type = number_type(values);
  const std::size_t count = values.numel();
  return in_place("all-reduce", std::move(values), [=](Link& link, std::byte* data, nccl::Comm* comm) {
    return link.library.all_reduce(data, data, count, type, nccl::kSum, comm, link.stream.handle());
  });
}

std::shared_ptr<Pending> NcclCommunicator::reduce_scatter(Tensor values, std::shared_ptr<Compression> /*compression*/) {
  check_bits("reduce-scatter", values);
  check_segments("reduce-scatter", values, world());
  const nccl::Type type = number_type(values);
  const std::size_t count = values.numel() / world();
  const std::size_t own = rank() * count * values.element_size();
  return in_place("reduce-scatter", std::move(values), [=](Link& link, std::byte* data, nccl::Comm* comm) {
    return link.library.reduce_scatter(data, data + own, count, type, nccl::kSum, comm, link.stream.handle());
  });
}

std::shared_ptr<Pending> NcclCommunicator::all_gather(Tensor values) {
  check_bits("all-gather", values);
  check_segments("all-gather", values, world());
  const std::size_t bytes = values.nbytes() / world();
  const std::size_t own = rank() * bytes;
  return in_place("all-gather", std::move(values), [=](Link& link, std::byte* data, nccl::Comm* comm) {
    return link.library.all_gather(data + own, data, bytes, nccl::kInt8, comm, link.stream.handle());
  });
}

std::shared_ptr<Pending> NcclCommunicator::broadcast(Tensor values, int root) {
  check_bits("broadcast", values);
  check_root(root, world());
  const std::size_t bytes = values.nbytes();
  return in_place("broadcast", std::move(values), [=](Link& link, std::byte* data, nccl::Comm* comm) {
    return link.library.broadcast(data, data, bytes, nccl::kInt8, root, comm, link.stream.handle());
  });
}

template <class Call>
std::shared_ptr<Pending> NcclCommunicator::in_place(const char* what, Tensor values, Call call) {
  TORCH_CHECK(values.device() == options_.device, what, " of a tensor on ", values.device(), " among ",
              options_.device);
  auto* data = static_cast<std::byte*>(values.data_ptr());
  auto progress = std::make_shared<InPlace::Progress>(
      InPlace::Progress{std::move(values), StreamMark(options_.device), std::nullopt});
  Link& link = *link_;  // has the thread that runs these
  const std::uint64_t task = link.thread.issue({.what = what,
                                                .call =
                                                    [&link, progress, data, call](nccl::Comm* comm) {
                                                      progress->begin.hold_up_current_stream();
                                                      return call(link, data, comm);
                                                    },
                                                .taken = [&link, progress] { progress->end.emplace(link.device); },
                                                .complete = [progress] { return progress->end->reached(); }});
  return std::make_shared<InPlace>(link_, std::move(progress), task);
}

std::shared_ptr<Pending> NcclCommunicator::sum(std::span<double> values) { return sum_of(values); }
std::shared_ptr<Pending> NcclCommunicator::sum(std::span<std::int64_t> values) { return sum_of(values); }

// Nothing of this is on the current stream: a sum waits for the operations before it, not for what is computed.
template <class T>
std::shared_ptr<Pending> NcclCommunicator::sum_of(std::span<T> values) {
  static_assert(sizeof(T) == sizeof(std::int64_t));
  using Progress = typename Sum<T>::Progress;
  const std::int64_t count = std::ssize(values);
  const auto on_host = at::device(at::kCPU).dtype(at::kLong).pinned_memory(!options_.device.is_cpu());
  auto progress = std::make_shared<Progress>();
  progress->own = at::empty({count}, on_host);
  if (count > 0) std::memcpy(progress->own.data_ptr(), values.data(), values.size_bytes());
  Link& link = *link_;
  const int own = rank();
  const int ranks = world();
  const std::uint64_t task = link.thread.issue(
      {.what = "sum",
       .call =
           [&link, progress, count, own, ranks](nccl::Comm* comm) {
             progress->on_device = at::empty({ranks * count}, at::device(link.device).dtype(at::kLong));
             const Tensor segment = progress->on_device.narrow(0, own * count, count);
             segment.copy_(progress->own, /*non_blocking=*/true);
             return link.library.all_gather(segment.data_ptr(), progress->on_device.data_ptr(), segment.nbytes(),
                                            nccl::kInt8, comm, link.stream.handle());
           },
       .taken =
           [&link, progress, on_host] {
             progress->all = at::empty_like(progress->on_device, on_host);
             progress->all.copy_(progress->on_device, /*non_blocking=*/true);
             progress->end.emplace(link.device);
           },
       .complete = [progress] { return progress->end->reached(); }});
  return std::make_shared<Sum<T>>(link_, std::move(progress), task, values);
}

void NcclCommunicator::abort(const Status& why) { link_->thread.abort(why); }

}  // namespace ravnest::strategy
