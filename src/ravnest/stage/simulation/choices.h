// The one source of chance of a simulated run: drawn from a seed, or given as a list. Smaller numbers are simpler.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

namespace ravnest::stage::simulation {

class Choices {
 public:
  explicit Choices(std::uint64_t seed) : drawing_(true), random_(seed) { made_.reserve(1024); }
  explicit Choices(std::vector<std::uint64_t> given) : drawing_(false), given_(std::move(given)) {}

  // From 0 to `most`. Where there is no choice none is made.
  std::uint64_t pick(std::uint64_t most) {
    if (most == 0) return 0;
    const std::uint64_t number = drawing_ ? random_() : made_.size() < given_.size() ? given_[made_.size()] : 0;
    made_.push_back(number % (most + 1));
    return made_.back();
  }
  int pick_int(int most) { return static_cast<int>(pick(static_cast<std::uint64_t>(most))); }
  // The smallest choice is no.
  bool chance(std::uint64_t percent) { return percent > 0 && pick(99) >= 100 - percent; }
  std::uint64_t one_of(std::initializer_list<std::uint64_t> values) { return values.begin()[pick(values.size() - 1)]; }

  const std::vector<std::uint64_t>& made() const { return made_; }

 private:
  bool drawing_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> given_;
  std::vector<std::uint64_t> made_;
};

}  // namespace ravnest::stage::simulation
