#include "ravnest/transport/buffers.h"

#include <chrono>
#include <iterator>
#include <new>
#include <utility>

#include "ravnest/wire/fields.h"

namespace ravnest::transport {
namespace {

constexpr std::size_t kSmall = 64 << 10;  // smaller blocks are the allocator's business
constexpr Duration kIdle = std::chrono::seconds(5);
constexpr std::align_val_t kAlign{wire::kAlignment};

std::byte* allocate(std::size_t size) { return static_cast<std::byte*>(::operator new(size, kAlign)); }
void release(std::byte* block) { ::operator delete(block, kAlign); }

}  // namespace

BufferPool::Store::~Store() {
  for (const auto& [size, block] : blocks_) release(block);
}

std::byte* BufferPool::Store::take(std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    taken_ = true;
    // The one that was given back last: it may still be in the processor's cache.
    if (const auto beyond = blocks_.upper_bound(size); beyond != blocks_.begin()) {
      const auto newest = std::prev(beyond);
      if (newest->first == size) {
        std::byte* block = newest->second;
        blocks_.erase(newest);
        bytes_ -= size;
        return block;
      }
    }
  }
  return allocate(size);
}

void BufferPool::Store::give_back(std::byte* block, std::size_t size) {
  std::vector<std::byte*> surplus;
  {
    const std::lock_guard lock(mutex_);
    blocks_.emplace(size, block);
    bytes_ += size;
    // Sizes in use come back; those that go first are the largest, which free the most.
    while (bytes_ > keep_bytes_) {
      const auto largest = std::prev(blocks_.end());
      surplus.push_back(largest->second);
      bytes_ -= largest->first;
      blocks_.erase(largest);
    }
  }
  for (std::byte* extra : surplus) release(extra);
}

void BufferPool::Store::trim(TimePoint now) {
  std::multimap<std::size_t, std::byte*> unused;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(taken_, false)) idle_since_ = now;
    if (now - idle_since_ < kIdle) return;
    unused.swap(blocks_);
    bytes_ = 0;
  }
  for (const auto& [size, block] : unused) release(block);
}

Buffer BufferPool::take(std::size_t size) {
  if (size <= kSmall) {
    std::shared_ptr<std::byte> block(allocate(std::max<std::size_t>(size, 1)), release);
    return {{block.get(), size}, block};
  }
  // Rounded, so that messages of about the same length share blocks.
  const std::size_t rounded = (size + kSmall - 1) / kSmall * kSmall;
  std::shared_ptr<std::byte> block(store_->take(rounded),
                                   [store = store_, rounded](std::byte* b) { store->give_back(b, rounded); });
  return {{block.get(), size}, block};
}

}  // namespace ravnest::transport
