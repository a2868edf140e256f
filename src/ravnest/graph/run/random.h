// Random numbers that belong to the operator: keyed by (seed, step, the operator's place in the whole model).
//
// However the model is cut, and whenever a pass is run again, an operator draws the same numbers. Kernels take theirs
// from the process's default generator, which is therefore seeded anew before each random operator; the generator's
// own state is put back in the end, so that others who draw from it see nothing of this.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <mutex>

#include "ravnest/base/mutex.h"

namespace ravnest::graph {

struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
};

// The operator's own key.
std::uint64_t operator_key(RandomKey key, std::int32_t place);

// Takes over the default generator of one device at the first seed_for, and puts its state back in the end. The
// generator is the process's: from there on others who would take it over wait, so a thread that has done so must not
// do it again. Whoever draws from it in another way must not do so meanwhile.
class KeyedGenerator {
 public:
  KeyedGenerator(c10::Device device, RandomKey key) : device_(device), key_(key) {}
  ~KeyedGenerator();
  KeyedGenerator(const KeyedGenerator&) = delete;
  KeyedGenerator& operator=(const KeyedGenerator&) = delete;

  // To be called before the operator at `place` runs.
  void seed_for(std::int32_t place);

 private:
  c10::Device device_;
  RandomKey key_;
  at::Generator generator_;  // undefined until `alone_` holds the lock; used under it only
  at::Generator saved_;
  // Of the process's generators. The standard's lock, since MutexLock is taken as it is made, and clang cannot follow
  // one that is taken later.
  std::unique_lock<Mutex> alone_;
};

}  // namespace ravnest::graph
