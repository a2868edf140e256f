// That all ranks are about to do the same, which they tell each other before they do it.
//
// What ranks exchange has no names: a rank whose loop gives it fewer batches, or that has ended its call, would have
// its numbers taken for something else. So each tells what it does next, and the sum shows all of them who does what.
// Plain values; safe from any thread.
#pragma once

#include <array>
#include <cstdint>

#include "ravnest/base/status.h"

namespace ravnest::train {

enum class Next : std::uint8_t {
  kBatch,     // feeds a batch, or has none left where others have one
  kSweepEnd,  // has validated with all its batches
  kCallEnd,   // has done what the call was for
};
inline constexpr std::size_t kNexts = 3;

// What one rank tells; what all have told, added up.
struct Told {
  std::array<std::int64_t, kNexts + 5> numbers = {};

  std::int64_t samples() const { return numbers[kNexts]; }
  std::int64_t correct() const { return numbers[kNexts + 1]; }
  // How many want the run to end with a checkpoint.
  std::int64_t enders() const { return numbers.back(); }
  void want_end(bool wanted) { numbers.back() = wanted ? 1 : 0; }
};

Told tells(Next next, std::uint64_t samples = 0, std::uint64_t correct = 0);
// Of a batch at a place that all ranks count alike.
Told tells_batch_at(std::uint64_t epoch, std::uint64_t index, std::uint64_t samples);

// kInvalid, in the same words on all ranks, where `sum` shows that they do not do the same next.
Status check_same(const Told& sum, int world);

}  // namespace ravnest::train
