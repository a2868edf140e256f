// Which samples make up which batch.
//
// The order is a function of (seed, epoch) alone, not of anything that happened before: root and leaf agree on it
// without a word, and a run that is resumed goes on with the batch at hand. It is computed sample by sample, never
// kept: the places 0 to n-1 go through a keyed permutation (a Feistel network of eight rounds over the next power of
// four, walked on until it lands below n). The numbers are part of the contract: two versions of this program that
// take part in one run have to draw the same.
//
// Where several clusters train side by side, each may take a share: of one order, which is the same for all, every so
// many places. Between them they take each sample once an epoch, and in the next one each takes others.
//
// Immutable; safe from any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace ravnest::data {

// The samples at the places part, part + parts, part + 2 * parts, ... of an epoch's order. Shares differ by at most one
// sample.
struct Share {
  std::int64_t part = 0;
  std::int64_t parts = 1;
};

class Batches {
 public:
  // `samples` at least 0, `batch` at least 1, and the share's part one of its parts.
  Batches(std::int64_t samples, std::int64_t batch, bool shuffle, std::uint64_t seed, Share share = {});

  // The last batch of an epoch may be short; all samples of the share come once.
  std::int64_t per_epoch() const { return (own_samples_ + batch_ - 1) / batch_; }

  // Batch number `step` of `epoch`, both from 0, as rows of the whole data set; empty from per_epoch() on.
  std::vector<std::int64_t> rows(std::uint64_t epoch, std::uint64_t step) const;

 private:
  std::int64_t samples_;
  std::int64_t batch_;
  bool shuffle_;
  std::uint64_t seed_;
  Share share_;
  std::int64_t own_samples_;  // of the share
  int half_bits_;             // of the network: it permutes numbers of twice as many
};

}  // namespace ravnest::data
