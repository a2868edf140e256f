// Which labels belong to a pass, and whether they are the root's: the leaf asks for them in the order of the passes.
// No torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ravnest/base/status.h"

namespace ravnest::train {

// The items of labels in order, one epoch after another. What an item is, and which one is at hand, only the source
// knows.
class LabelSource {
 public:
  virtual ~LabelSource() = default;

  // Before the first item of the epoch, or of the sweep.
  virtual Status begin(std::uint64_t epoch) = 0;
  // Goes on to the next item: its digest (labels.h), 0 where it has none; none where the epoch is over.
  virtual Result<std::optional<std::uint64_t>> next() = 0;
  // Leaves out so many, straight after `begin`: they were trained on before the run was interrupted.
  virtual Status skip(std::uint64_t items) = 0;
};

// For sentences. What helps depends on where the labels come from.
struct LabelNames {
  std::string node;  // the leaf
  std::string root;
  std::string same;             // what has to be the same on both for the same order
  std::string and_enough = {};  // ", and ...": what else makes labels end too early
};

// Has a source at the item for a pass. For one thread.
class LeafLabels {
 public:
  explicit LeafLabels(LabelNames names) : names_(std::move(names)) {}

  // The source is at the item for batch `index` of `epoch`, which the root gave `digest`; passes of one batch may ask
  // again. kInvalid where there is no such item, or where its digest is another; otherwise as the source.
  Status go_to(LabelSource& source, std::uint64_t epoch, std::uint64_t index, std::uint64_t digest);

 private:
  LabelNames names_;
  std::optional<std::uint64_t> epoch_;
  std::uint64_t next_ = 0;     // of the item after the one at hand
  std::uint64_t skipped_ = 0;  // items of this epoch that were left out
  std::uint64_t before_ = 0;   // items of the epoch before, as far as they were asked for
};

}  // namespace ravnest::train
