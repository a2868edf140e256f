// What is needed of a device's streams, for any device that torch knows: no header of CUDA's is included.
// On the host, where nothing is queued, there are no streams, and every point in one is reached.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

#include "ravnest/base/clock.h"

namespace ravnest::strategy {

// A stream of high priority beside those that compute.
class DeviceStream {
 public:
  explicit DeviceStream(c10::Device device);

  // Makes it, and its device, the calling thread's current ones for good.
  void enter() const;
  // As NCCL takes it.
  void* handle() const;

 private:
  std::optional<c10::Stream> stream_;
};

// The end of what the calling thread's current stream of a device has queued by now.
class StreamMark {
 public:
  explicit StreamMark(c10::Device device);

  bool reached() const;
  // What the calling thread's current stream is given from now on waits for it.
  void hold_up_current_stream() const;
  // Whether it is reached by then. A device can only be asked, so this does, in pauses.
  bool hold_up_host(TimePoint deadline) const;
  // Whether that is the stream which this is a point of.
  bool is_of_current_stream() const;

 private:
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event> event_;
};

}  // namespace ravnest::strategy
