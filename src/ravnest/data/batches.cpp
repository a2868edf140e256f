#include "ravnest/data/batches.h"

#include <algorithm>

namespace ravnest::data {
namespace {

constexpr int kRounds = 8;
constexpr int kLeastHalfBits = 2;  // fewer leave hardly any permutations to choose from

// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t permuted(std::uint64_t number, std::uint64_t key, int half_bits) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = number >> half_bits;
  std::uint64_t right = number & mask;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t next = left ^ (mix(mix(key + static_cast<std::uint64_t>(round)) ^ right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

Batches::Batches(std::int64_t samples, std::int64_t batch, bool shuffle, std::uint64_t seed, Share share)
    : samples_(samples),
      batch_(batch),
      shuffle_(shuffle),
      seed_(seed),
      share_(share),
      own_samples_((samples + share.parts - 1 - share.part) / share.parts),
      half_bits_(kLeastHalfBits) {
  while (half_bits_ < 31 && (std::int64_t{1} << (2 * half_bits_)) < samples_) ++half_bits_;
}

std::vector<std::int64_t> Batches::rows(std::uint64_t epoch, std::uint64_t step) const {
  std::vector<std::int64_t> rows;
  if (step >= static_cast<std::uint64_t>(per_epoch())) return rows;
  const std::int64_t first = static_cast<std::int64_t>(step) * batch_;
  const std::int64_t last = std::min(first + batch_, own_samples_);
  rows.reserve(static_cast<std::size_t>(last - first));
  const std::uint64_t key = mix(mix(seed_) ^ epoch);
  for (std::int64_t place = first; place < last; ++place) {
    auto row = static_cast<std::uint64_t>(share_.part + place * share_.parts);
    if (shuffle_) {
      // Walking on from a place below n always comes back below n, and to another row for each place.
      do row = permuted(row, key, half_bits_);
      while (row >= static_cast<std::uint64_t>(samples_));
    }
    rows.push_back(static_cast<std::int64_t>(row));
  }
  return rows;
}

}  // namespace ravnest::data
