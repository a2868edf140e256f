#include "ravnest/train/loop/leaf_labels.h"

#include "ravnest/train/loop/batch_counts.h"

namespace ravnest::train {

Status LeafLabels::go_to(LabelSource& source, std::uint64_t epoch, std::uint64_t index, std::uint64_t digest) {
  if (epoch_ == epoch && next_ == index + 1) return {};
  if (epoch_ != epoch) {
    before_ = next_;
    if (Status begun = source.begin(epoch); !begun.ok()) return begun;
    epoch_ = epoch;
    skipped_ = index;
    if (index > 0) {
      if (Status skipped = source.skip(index); !skipped.ok()) return skipped;
    }
    next_ = index;
  }
  const std::string where = text("batch ", index, " of epoch ", epoch);
  std::uint64_t own = 0;
  while (next_ <= index) {
    const auto item = source.next();
    if (!item.ok()) return item.status();
    if (!*item) break;
    own = **item;
    ++next_;
  }
  if (next_ == 0 && before_ > 0) {
    return invalid("the labels of ", names_.node, " gave ", counted(before_), " before and none for ", where,
                   ": they can be iterated only once, as a generator can; give a DataLoader, a list or a tensor");
  }
  if (next_ <= index) {
    return invalid("the labels of ", names_.node, " end after ", next_ > 0 && next_ == skipped_ ? "at most " : "",
                   next_, " batches, but ", names_.root, " sent ", where, ": both need the same data",
                   names_.and_enough);
  }
  if (digest != 0 && own != 0 && digest != own) {
    return invalid("the labels of ", names_.node, " for ", where, " are not those of ", names_.root,
                   ": both need the same data in the same order (", names_.same, ")");
  }
  return {};
}

}  // namespace ravnest::train
