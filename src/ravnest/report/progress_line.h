// How far a run is, as one line of text.
//
// Pure functions of the facts. What is not known is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ravnest::report {

struct ProgressFacts {
  std::uint64_t epoch = 1;                        // the present one, from 1
  std::uint64_t epochs = 0;                       // 0: unknown
  std::uint64_t batch = 0;                        // of the epoch: as many as are done
  std::uint64_t batches = 0;                      // of the epoch; 0: unknown
  std::optional<double> loss = std::nullopt;      // mean over the last seconds; none before the first
  std::optional<double> accuracy = std::nullopt;  // of the last validation, percent
  double samples_per_s = 0;                       // over the last seconds; 0: unknown
  std::optional<double> seconds_left = std::nullopt;

  bool operator==(const ProgressFacts&) const = default;
};

// For a terminal: never more than `width` characters, all of them ASCII, no newline. With room for all:
//   epoch 3/10 [#########-----------]  47 %  loss 0.0312  accuracy 94.58 %  14.2k samples/s  12 s left
// Where room is short the bar shrinks, words get shorter, and then go: bar, rate, accuracy, time left, loss, percent.
std::string bar_line(const ProgressFacts& facts, int width);

// For a file: no width to keep to, no newline.
//   epoch 3/10, batch 8 of 17: loss 0.0312, accuracy 94.58 %, 14.2k samples/s, 12 s left
// A finished epoch needs no batch: "epoch 3/10: loss 0.0312".
std::string plain_line(const ProgressFacts& facts);

}  // namespace ravnest::report
