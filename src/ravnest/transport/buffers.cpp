#include "ravnest/transport/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <utility>

#include "ravnest/wire/fields.h"

namespace ravnest::transport {
namespace {

constexpr std::size_t kSmall = 64 << 10;  // smaller blocks are the allocator's business
// Larger blocks are mapped, so that they can grow without being copied.
constexpr std::size_t kMapped = 8 << 20;
constexpr Duration kIdle = std::chrono::seconds(5);
constexpr std::align_val_t kAlign{wire::kAlignment};

std::byte* mapped(void* block) {
  if (block == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(block);
}

std::byte* allocate(std::size_t size) {
  if (size < kMapped) return static_cast<std::byte*>(::operator new(size, kAlign));
  return mapped(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

void release(std::byte* block, std::size_t size) {
  if (size < kMapped) return ::operator delete(block, kAlign);
  ::munmap(block, size);
}

// Rounded, so that messages of about the same length share blocks; small ones are the allocator's business.
std::size_t block_size(std::size_t size) {
  return size <= kSmall ? std::max<std::size_t>(size, 1) : (size + kSmall - 1) / kSmall * kSmall;
}

}  // namespace

BufferPool::Store::~Store() {
  for (const auto& [size, block] : blocks_) release(block, size);
}

std::byte* BufferPool::Store::take_kept(std::size_t size) {
  const MutexLock lock(mutex_);
  taken_ = true;
  // The one that was given back last: it may still be in the processor's cache.
  const auto beyond = blocks_.upper_bound(size);
  if (beyond == blocks_.begin()) return nullptr;
  const auto newest = std::prev(beyond);
  if (newest->first != size) return nullptr;
  std::byte* block = newest->second;
  blocks_.erase(newest);
  bytes_ -= size;
  return block;
}

std::byte* BufferPool::Store::take(std::size_t size) {
  std::byte* const kept = size > kSmall ? take_kept(size) : nullptr;
  return kept != nullptr ? kept : allocate(size);
}

void BufferPool::Store::give_back(std::byte* block, std::size_t size) {
  if (size <= kSmall) return release(block, size);
  std::vector<std::pair<std::byte*, std::size_t>> surplus;
  {
    const MutexLock lock(mutex_);
    blocks_.emplace(size, block);
    bytes_ += size;
    // Sizes in use come back; those that go first are the largest, which free the most.
    while (bytes_ > keep_bytes_) {
      const auto largest = std::prev(blocks_.end());
      surplus.emplace_back(largest->second, largest->first);
      bytes_ -= largest->first;
      blocks_.erase(largest);
    }
  }
  for (const auto& [extra, extra_size] : surplus) release(extra, extra_size);
}

void BufferPool::Store::trim(TimePoint now) {
  std::multimap<std::size_t, std::byte*> unused;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(taken_, false)) idle_since_ = now;
    if (now - idle_since_ < kIdle) return;
    unused.swap(blocks_);
    bytes_ = 0;
  }
  for (const auto& [size, block] : unused) release(block, size);
}

Buffer BufferPool::take(std::size_t size) {
  const std::size_t whole = block_size(size);
  std::shared_ptr<std::byte> block(store_->take(whole),
                                   [store = store_, whole](std::byte* b) { store->give_back(b, whole); });
  return {{block.get(), size}, block};
}

GrowingBuffer BufferPool::begin(std::size_t size) {
  GrowingBuffer buffer;
  buffer.store_ = store_;
  buffer.size_ = size;
  buffer.capacity_ = block_size(size);
  if (buffer.capacity_ <= kMapped) {
    buffer.block_ = store_->take(buffer.capacity_);
  } else {
    buffer.block_ = store_->take_kept(buffer.capacity_);
    if (buffer.block_ == nullptr) buffer.block_ = allocate(buffer.capacity_ = kMapped);
  }
  return buffer;
}

GrowingBuffer::GrowingBuffer(GrowingBuffer&& other) noexcept
    : store_(std::move(other.store_)),
      block_(std::exchange(other.block_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      size_(std::exchange(other.size_, 0)) {}

GrowingBuffer& GrowingBuffer::operator=(GrowingBuffer&& other) noexcept {
  GrowingBuffer taken(std::move(other));
  std::swap(store_, taken.store_);
  std::swap(block_, taken.block_);
  std::swap(capacity_, taken.capacity_);
  std::swap(size_, taken.size_);
  return *this;
}

// One that has not come to its full size is no use to other messages.
GrowingBuffer::~GrowingBuffer() {
  if (block_ == nullptr) return;
  if (capacity_ >= size_) {
    store_->give_back(block_, capacity_);
  } else {
    release(block_, capacity_);
  }
}

std::span<std::byte> GrowingBuffer::part(std::size_t offset, std::size_t size) {
  if (const std::size_t needed = offset + size; needed > capacity_) {
    const std::size_t grown = std::min(block_size(size_), std::max(2 * capacity_, block_size(needed)));
    block_ = mapped(::mremap(block_, capacity_, grown, MREMAP_MAYMOVE));
    capacity_ = grown;
  }
  return {block_ + offset, size};
}

Buffer GrowingBuffer::finish() && {
  std::shared_ptr<std::byte> block(std::exchange(block_, nullptr),
                                   [store = store_, size = capacity_](std::byte* b) { store->give_back(b, size); });
  return {{block.get(), size_}, block};
}

}  // namespace ravnest::transport
