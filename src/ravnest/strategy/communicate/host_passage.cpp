#include "ravnest/strategy/communicate/host_passage.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "ravnest/base/clock.h"

namespace ravnest::strategy {
namespace {

// Between two looks whether the copies are there: little beside a round trip, and next to nothing for a core.
constexpr auto kPause = std::chrono::microseconds(50);

at::Tensor part_of(const at::Tensor& flat, const collective::Range& part) {
  return flat.view(-1).narrow(0, static_cast<std::int64_t>(part.first), static_cast<std::int64_t>(part.size()));
}

}  // namespace

std::shared_ptr<c10::Event> HostPassage::mark(const at::Tensor& values) {
  const c10::impl::VirtualGuardImpl gpu(values.device().type());
  auto event = std::make_shared<c10::Event>(values.device().type());
  event->record(gpu.getStream(values.device()));
  return event;
}

c10::Stream HostPassage::stream_of(const at::Tensor& values) {
  if (!stream_ || stream_->device() != values.device()) {
    stream_ = c10::impl::VirtualGuardImpl(values.device().type()).getStreamFromGlobalPool(values.device());
  }
  return *stream_;
}

Result<at::Tensor> HostPassage::fetch(const at::Tensor& values, const collective::Range& part,
                                      const c10::Event& ready) {
  const c10::Stream stream = stream_of(values);
  const c10::StreamGuard guard(stream);
  ready.block(stream);
  pinned_.clear();
  const at::Tensor host = pinned_.take(values.numel(), values.scalar_type());
  part_of(host, part).copy_(part_of(values, part), /*non_blocking=*/true);
  if (Status there = wait_for_copies(stream); !there.ok()) return there;
  return host;
}

Status HostPassage::give_back(const at::Tensor& host, const at::Tensor& values, const collective::Range& part) {
  const c10::Stream stream = stream_of(values);
  const c10::StreamGuard guard(stream);
  part_of(values, part).copy_(part_of(host, part), /*non_blocking=*/true);
  return wait_for_copies(stream);
}

Status HostPassage::wait_for_copies(c10::Stream stream) {
  c10::Event copied(stream.device_type());
  copied.record(stream);
  const MutexLock lock(mutex_);
  while (reason_.ok() && !copied.query()) stopped_.wait_until(mutex_, SystemClock().now() + kPause);
  return reason_;
}

void HostPassage::stop(const Status& why) {
  const MutexLock lock(mutex_);
  if (reason_.ok()) reason_ = why;
  stopped_.notify_all();
}

}  // namespace ravnest::strategy
