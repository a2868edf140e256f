#include "ravnest/stage/ending.h"

#include <tuple>

#include "ravnest/base/printable.h"

namespace ravnest::stage {

// What is found later is not told any more, so it can't count here either.
std::optional<wire::Failed> Ending::fail(wire::Failed reason) {
  if (begun()) return std::nullopt;
  reason.reason = printable_reason(reason.reason);
  consider(reason);
  return reason;
}

std::optional<wire::Failed> Ending::on_failed(int from, wire::Failed told) {
  told.reason = printable_reason(told.reason);
  silent_.insert(from);
  const bool first = !begun();
  consider(told);
  return first ? std::optional(told) : std::nullopt;
}

void Ending::consider(const wire::Failed& reason) {
  if (reason.lost) silent_.insert(static_cast<int>(reason.stage));
  const auto rank = [](const wire::Failed& one) { return std::tie(one.lost, one.stage, one.reason); };
  if (!reason_ || rank(reason) < rank(*reason_)) reason_ = reason;
}

bool Ending::settled() const {
  if (!begun()) return false;
  for (int stage = 0; stage < count_; ++stage) {
    if (stage != self_ && !silent_.contains(stage)) return false;
  }
  return true;
}

}  // namespace ravnest::stage
