// The ranks of a communicator as threads of one process, and values that tests can compare.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/strategy/communicate/communicator.h"

namespace ravnest::strategy {

// All communicators of one world; there when it is made. Different ranks may be used by different threads.
class LocalRanks {
 public:
  LocalRanks() = default;
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;
  virtual ~LocalRanks() = default;

  virtual Communicator& of(int rank) = 0;
  // Destroys the rank's communicator.
  virtual void close(int rank) = 0;
  // Destroys the rank, without a word to the others, as if its process were killed; the others find out.
  virtual void lose(int rank) = 0;
  // Where its tensors are.
  virtual at::Device device(int /*rank*/) const { return at::kCPU; }
};

// What is to pass the suite.
struct Backend {
  std::string name;
  std::function<std::unique_ptr<LocalRanks>(int world)> make;
  std::function<bool()> available = [] { return true; };
  bool adds_doubles = true;  // tensors of them
  bool compresses = true;    // takes a Compression
  bool names_who_is_lost = true;

  friend std::ostream& operator<<(std::ostream& out, const Backend& backend) { return out << backend.name; }
};

// What each rank's thread does, all at the same time; returns when all are done. Where that takes too long, the test
// has failed, and all communicators are aborted so that it ends.
inline void each_rank(LocalRanks& ranks, int world, const std::function<void(Communicator&, int)>& what) {
  Mutex mutex;
  ConditionVariable changed;
  int left = world;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        what(ranks.of(rank), rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        ranks.of(rank).abort(internal(error.what()));
      }
      const MutexLock lock(mutex);
      --left;
      changed.notify_all();
    });
  }
  {
    const MutexLock lock(mutex);
    if (!changed.wait_until(mutex, SystemClock().now() + std::chrono::seconds(60), [&] { return left == 0; })) {
      ADD_FAILURE() << left << " ranks are not done in time";
      for (int rank = 0; rank < world; ++rank) ranks.of(rank).abort(deadline("the test takes too long"));
    }
  }
  for (std::thread& each : threads) each.join();
}

// What a rank gives: numbers whose sum depends on the order of adding.
inline at::Tensor numbers_of(int rank, std::int64_t elements, at::ScalarType type = at::kFloat, int seed = 0) {
  std::mt19937_64 random(static_cast<std::uint64_t>(1000 * seed + rank + 1));
  std::normal_distribution<double> normal;
  at::Tensor values = at::empty({elements}, at::kDouble);
  for (std::int64_t i = 0; i < elements; ++i) values.mutable_data_ptr<double>()[i] = normal(random);
  return values.to(type);
}

// Any bits, also those of numbers that are none.
inline at::Tensor bits_of(int rank, std::int64_t elements, at::ScalarType type) {
  at::Tensor values = at::zeros({elements}, type);
  std::mt19937_64 random(static_cast<std::uint64_t>(rank + 77));
  auto* bytes = static_cast<std::uint8_t*>(values.mutable_data_ptr());
  for (std::size_t i = 0; i < values.nbytes(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(type == at::kBool ? random() % 2 : random());
  }
  return values;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a.cpu();
  const at::Tensor right = b.cpu();
  return left.scalar_type() == right.scalar_type() && left.sizes() == right.sizes() &&
         (left.nbytes() == 0 || std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0);
}

}  // namespace ravnest::strategy
