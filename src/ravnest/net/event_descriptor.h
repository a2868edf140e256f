// A descriptor that becomes readable when told to: how threads wake one that waits for descriptors.
#pragma once

#include <sys/eventfd.h>

#include "ravnest/base/descriptor.h"

namespace ravnest {

// Safe from any thread.
class EventDescriptor {
 public:
  EventDescriptor() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // Readable from now on, until `take`.
  void raise() const { (void)::eventfd_write(descriptor_.number(), 1); }
  void take() const {
    eventfd_t ignored = 0;
    (void)::eventfd_read(descriptor_.number(), &ignored);
  }
  int number() const { return descriptor_.number(); }

 private:
  Descriptor descriptor_;
};

}  // namespace ravnest
