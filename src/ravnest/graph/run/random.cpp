#include "ravnest/graph/run/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

namespace ravnest::graph {
namespace {

// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Guards torch's default generators, from a KeyedGenerator's first `seed_for` to its end, among all stages that are
// threads of this process. Torch's members have no words for clang, and a thread that runs no random operator never
// takes the lock: so each use below is checked by eye, not by clang.
Mutex taken_over;

}  // namespace

std::uint64_t operator_key(RandomKey key, std::int32_t place) {
  return mix(mix(mix(key.seed) ^ key.step) ^ static_cast<std::uint64_t>(place));
}

// The inner lock, here and below, is torch's own.
KeyedGenerator::~KeyedGenerator() {
  if (!generator_.defined()) return;
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  if (device_.is_cpu()) {  // without a tensor in between: this runs once per step
    auto* generator = generator_.get<at::CPUGeneratorImpl>();
    auto* saved = saved_.get<at::CPUGeneratorImpl>();
    generator->set_engine(saved->engine());
    generator->set_next_float_normal_sample(saved->next_float_normal_sample());
    generator->set_next_double_normal_sample(saved->next_double_normal_sample());
  } else {
    generator_.set_current_seed(saved_.current_seed());
    generator_.set_offset(saved_.get_offset());
  }
}

void KeyedGenerator::seed_for(std::int32_t place) {
  if (!generator_.defined()) {
    alone_ = std::unique_lock(taken_over);
    generator_ = at::globalContext().defaultGenerator(device_);
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    saved_ = generator_.clone();
  }
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  generator_.set_current_seed(operator_key(key_, place));
}

}  // namespace ravnest::graph
