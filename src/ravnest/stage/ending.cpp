#include "ravnest/stage/ending.h"

#include <tuple>

#include "ravnest/base/check.h"
#include "ravnest/base/printable.h"

namespace ravnest::stage {

Ending::Ending(int self, int count) : self_(self), count_(count) {
  RAVNEST_CHECK(self >= 0 && self < count, "stage ", self, " of ", count);
}

// What is found later is not told any more, so it can't count here either.
std::optional<wire::Failed> Ending::fail(wire::Failed reason) {
  if (begun()) return std::nullopt;
  RAVNEST_CHECK(reason.lost != (reason.stage == static_cast<std::uint32_t>(self_)), "stage ", self_, " gives ",
                reason.lost ? "the loss of stage " : "a reason of stage ", reason.stage);
  reason.reason = printable_reason(reason.reason);
  consider(reason);
  return reason;
}

std::optional<wire::Failed> Ending::on_failed(int from, wire::Failed told) {
  RAVNEST_CHECK(from != self_, "stage ", self_, " hears itself");
  told.reason = printable_reason(told.reason);
  silent_.insert(from);
  const bool first = !begun();
  consider(told);
  return first ? std::optional(told) : std::nullopt;
}

void Ending::on_gone(int stage) {
  RAVNEST_CHECK(stage != self_, "stage ", self_, " is gone by its own account");
  silent_.insert(stage);
}

const wire::Failed& Ending::reason() const {
  RAVNEST_CHECK(begun(), "stage ", self_, " is asked why it ends, and does not");
  return *reason_;
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
