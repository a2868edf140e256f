#include "ravnest/graph/run/block_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <pthread.h>

#include <cstdint>

#include "ravnest/base/block_cache.h"
#include "ravnest/base/mutex.h"

namespace ravnest::graph {
namespace {

// torch's tensors live until the process ends, and so does this.
BlockCache& blocks() {
  static auto* const cache = new BlockCache;
  return *cache;
}

constexpr std::uintptr_t kPage = 4096;

void release(void* memory) {
  if (memory == nullptr) return;
  c10::profiledCPUMemoryReporter().Delete(memory);
  // Blocks begin at a page; little else does, and need not be looked for.
  const bool may_be_block = reinterpret_cast<std::uintptr_t>(memory) % kPage == 0;
  if (!may_be_block || !blocks().give(memory)) c10::free_cpu(memory);
}

class BlockAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = nullptr;
    if (bytes >= kLargeBlock) memory = blocks().take(bytes);
    if (memory == nullptr) memory = c10::alloc_cpu(bytes);  // which says what it could not get
    c10::profiledCPUMemoryReporter().New(memory, bytes);
    return {memory, memory, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

void keep_large_blocks() {
  static const bool once = [] {
    // Held from one function to another, which clang cannot follow.
    const auto lock = []() RAVNEST_FOR_CLANG(no_thread_safety_analysis) { blocks().lock(); };
    const auto unlock = []() RAVNEST_FOR_CLANG(no_thread_safety_analysis) { blocks().unlock(); };
    ::pthread_atfork(lock, unlock, unlock);
    c10::SetCPUAllocator(new BlockAllocator, /*priority=*/1);
    return true;
  }();
  (void)once;
}

}  // namespace ravnest::graph
