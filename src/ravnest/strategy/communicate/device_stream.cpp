#include "ravnest/strategy/communicate/device_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace ravnest::strategy {
namespace {

constexpr Duration kFirstPause = std::chrono::microseconds(10);
constexpr Duration kLongestPause = std::chrono::milliseconds(1);

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

}  // namespace

DeviceStream::DeviceStream(c10::Device device) {
  if (device.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

void DeviceStream::enter() const {
  if (!stream_) return;
  const c10::impl::VirtualGuardImpl devices(stream_->device_type());
  devices.setDevice(stream_->device());
  devices.exchangeStream(*stream_);
}

void* DeviceStream::handle() const { return stream_ ? stream_->native_handle() : nullptr; }

StreamMark::StreamMark(c10::Device device) {
  if (device.is_cpu()) return;
  stream_ = current_stream(device);
  event_.emplace(device.type());
  event_->record(*stream_);
}

bool StreamMark::reached() const { return !event_ || event_->query(); }

void StreamMark::hold_up_current_stream() const {
  if (event_) event_->block(current_stream(stream_->device()));
}

bool StreamMark::hold_up_host(TimePoint deadline) const {
  Duration pause = kFirstPause;
  while (!reached()) {
    if (SystemClock().now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  return true;
}

bool StreamMark::is_of_current_stream() const { return !stream_ || *stream_ == current_stream(stream_->device()); }

}  // namespace ravnest::strategy
