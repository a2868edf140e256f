#include "ravnest/base/block_cache.h"

#include <sys/mman.h>

#include <algorithm>

namespace ravnest {
namespace {

constexpr std::size_t kPage = 4096;
// A kept block serves for less than it has, down to this part.
constexpr std::size_t kWastedPart = 8;

std::size_t in_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

BlockCache::~BlockCache() {
  while (!by_age_.empty()) drop_oldest();
}

void* BlockCache::take(std::size_t bytes) {
  bytes = in_pages(bytes);
  const MutexLock guard(mutex_);
  ++count_;
  if (void* block = take_kept(bytes)) return block;
  // Kept ones make room first, so that both together never exceed what is in use at the fullest moment.
  const std::size_t allowed = std::max(most_in_use_, in_use_ + bytes);
  while (!by_age_.empty() && in_use_ + kept_ + bytes > allowed) drop_oldest();
  void* block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    while (!by_age_.empty()) drop_oldest();
    block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return nullptr;
  }
  note_in_use(block, bytes);
  return block;
}

bool BlockCache::give(void* block) {
  const MutexLock guard(mutex_);
  const auto used = used_.find(block);
  if (used == used_.end()) return false;
  const std::size_t bytes = used->second;
  used_.erase(used);
  in_use_ -= bytes;
  kept_ += bytes;
  ++count_;
  by_size_.emplace(bytes, by_age_.insert(by_age_.end(), {block, bytes, count_}));
  while (by_age_.front().since + kLong < count_) drop_oldest();
  return true;
}

void* BlockCache::take_kept(std::size_t bytes) {
  const auto found = by_size_.lower_bound(bytes);
  if (found == by_size_.end() || found->first - bytes > found->first / kWastedPart) return nullptr;
  // Of those that are as large the one that was used last: the processor's caches may have some of it yet.
  const auto last = std::prev(by_size_.upper_bound(found->first));
  const Kept kept = *last->second;
  by_age_.erase(last->second);
  by_size_.erase(last);
  kept_ -= kept.bytes;
  note_in_use(kept.block, kept.bytes);
  return kept.block;
}

void BlockCache::drop_oldest() {
  const auto oldest = by_age_.begin();
  auto [same, end] = by_size_.equal_range(oldest->bytes);
  while (same != end && same->second != oldest) ++same;
  by_size_.erase(same);
  ::munmap(oldest->block, oldest->bytes);
  kept_ -= oldest->bytes;
  by_age_.erase(oldest);
}

void BlockCache::note_in_use(void* block, std::size_t bytes) {
  used_.emplace(block, bytes);
  in_use_ += bytes;
  most_in_use_ = std::max(most_in_use_, in_use_);
}

std::size_t BlockCache::in_use() const {
  const MutexLock guard(mutex_);
  return in_use_;
}

std::size_t BlockCache::kept() const {
  const MutexLock guard(mutex_);
  return kept_;
}

}  // namespace ravnest
