// Memory for what is received, used again and again.
//
// A fresh block of megabytes costs the system a page fault for every 4 KiB, more than receiving into it. So large
// blocks go back to the pool when their last slice is dropped. The pool keeps a bounded amount of them, and none once
// nothing was received for a few seconds.
// Safe from any thread. Slices may outlive the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ravnest/base/clock.h"

namespace ravnest::transport {

// `owner` keeps `bytes` valid; they are aligned to 64 and hold no particular values.
struct Buffer {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
};

class BufferPool {
 public:
  // Keeps at most `keep_bytes` of unused blocks.
  explicit BufferPool(std::uint64_t keep_bytes) : store_(std::make_shared<Store>(keep_bytes)) {}

  Buffer take(std::size_t size);
  // To be called now and then: gives blocks that are out of use back to the system.
  void trim(TimePoint now) { store_->trim(now); }

 private:
  // The blocks at rest, by size.
  class Store {
   public:
    explicit Store(std::uint64_t keep_bytes) : keep_bytes_(keep_bytes) {}
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;
    ~Store();

    std::byte* take(std::size_t size);
    void give_back(std::byte* block, std::size_t size);
    void trim(TimePoint now);

   private:
    const std::uint64_t keep_bytes_;
    std::mutex mutex_;
    std::multimap<std::size_t, std::byte*> blocks_;
    std::uint64_t bytes_ = 0;
    bool taken_ = false;      // since the last trim
    TimePoint idle_since_{};  // no block was taken from here on
  };

  std::shared_ptr<Store> store_;
};

}  // namespace ravnest::transport
