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
#include <span>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"

namespace ravnest::transport {

// `owner` keeps `bytes` valid; they are aligned to 64 and hold no particular values.
struct Buffer {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
};

class GrowingBuffer;

class BufferPool {
 public:
  // Keeps at most `keep_bytes` of unused blocks.
  explicit BufferPool(std::uint64_t keep_bytes) : store_(std::make_shared<Store>(keep_bytes)) {}

  Buffer take(std::size_t size);
  // Memory for what is announced as `size` bytes by someone who may lie: what the pool has at rest, or little for now.
  GrowingBuffer begin(std::size_t size);
  // To be called now and then: gives blocks that are out of use back to the system.
  void trim(TimePoint now) { store_->trim(now); }

 private:
  friend class GrowingBuffer;

  // The blocks at rest, by size.
  class Store {
   public:
    explicit Store(std::uint64_t keep_bytes) : keep_bytes_(keep_bytes) {}
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;
    ~Store();

    std::byte* take(std::size_t size);
    // One of the blocks at rest, if there is one of that size.
    std::byte* take_kept(std::size_t size);
    void give_back(std::byte* block, std::size_t size);
    void trim(TimePoint now);

   private:
    const std::uint64_t keep_bytes_;
    Mutex mutex_;
    std::multimap<std::size_t, std::byte*> blocks_ RAVNEST_GUARDED_BY(mutex_);
    std::uint64_t bytes_ RAVNEST_GUARDED_BY(mutex_) = 0;
    bool taken_ RAVNEST_GUARDED_BY(mutex_) = false;      // since the last trim
    TimePoint idle_since_ RAVNEST_GUARDED_BY(mutex_){};  // no block was taken from here on
  };

  std::shared_ptr<Store> store_;
};

// Memory for a message that is arriving: it grows with what has come, at most to twice that, and never by copying.
// Throws std::bad_alloc where the system has no more. Not thread-safe; one owner.
class GrowingBuffer {
 public:
  GrowingBuffer() = default;
  GrowingBuffer(GrowingBuffer&& other) noexcept;
  GrowingBuffer& operator=(GrowingBuffer&& other) noexcept;
  ~GrowingBuffer();

  // Where the bytes [offset, offset + size) go, which are within what was announced. Earlier places are void.
  std::span<std::byte> part(std::size_t offset, std::size_t size);
  // All that was announced, which has come by now.
  Buffer finish() &&;
  std::size_t capacity() const { return capacity_; }

 private:
  friend class BufferPool;

  std::shared_ptr<BufferPool::Store> store_;
  std::byte* block_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;  // as announced
};

}  // namespace ravnest::transport
