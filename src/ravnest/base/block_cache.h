// Large blocks of memory, kept for whoever next asks for as much.
//
// Training takes and frees the same large blocks with every pass: gradients, activations, versions of the weights. The
// C library either gives each back to the system, which then clears it anew page by page, or keeps it in a heap where
// it is split up, so that a process grows far beyond what it ever had in use. Here blocks are kept whole, and never so
// many that blocks in use and kept ones together are more than were once in use at a time: what a process takes is what
// it needs at its fullest moment. A kept block that nobody wanted for long goes back to the system.
//
// Thread-safe. It can be locked as a mutex, for a fork.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <unordered_map>

#include "ravnest/base/mutex.h"

namespace ravnest {

class BlockCache {
 public:
  // For so many takes and gives of others: hundreds of training steps, mostly.
  static constexpr std::uint64_t kLong = 4096;

  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  // No block may be in use any more.
  ~BlockCache();

  // At least so many bytes, more than 0, of undefined content, at a page's begin; nullptr where the system has none.
  void* take(std::size_t bytes);
  // False where the block is none of this cache's in use.
  bool give(void* block);

  std::size_t in_use() const;  // bytes, in whole pages
  std::size_t kept() const;

  void lock() RAVNEST_ACQUIRES(mutex_) { mutex_.lock(); }
  void unlock() RAVNEST_RELEASES(mutex_) { mutex_.unlock(); }

 private:
  struct Kept {
    void* block = nullptr;
    std::size_t bytes = 0;
    std::uint64_t since = 0;  // by the count of all takes and gives
  };
  using ByAge = std::list<Kept>;  // the one that was given back longest ago first

  void* take_kept(std::size_t bytes) RAVNEST_REQUIRES(mutex_);
  void drop_oldest() RAVNEST_REQUIRES(mutex_);
  void note_in_use(void* block, std::size_t bytes) RAVNEST_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::unordered_map<void*, std::size_t> used_ RAVNEST_GUARDED_BY(mutex_);
  ByAge by_age_ RAVNEST_GUARDED_BY(mutex_);
  std::multimap<std::size_t, ByAge::iterator> by_size_ RAVNEST_GUARDED_BY(mutex_);
  std::uint64_t count_ RAVNEST_GUARDED_BY(mutex_) = 0;  // of takes and gives
  std::size_t in_use_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::size_t kept_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::size_t most_in_use_ RAVNEST_GUARDED_BY(mutex_) = 0;
};

}  // namespace ravnest
