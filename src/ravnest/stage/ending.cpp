#include "ravnest/stage/ending.h"

#include <tuple>

#include "ravnest/base/check.h"
#include "ravnest/base/printable.h"

namespace ravnest::stage {

Ending::Ending(int self, int count) : self_(self), count_(count) {
  RAVNEST_CHECK(self >= 0 && self < count, "stage ", self, " of ", count);
}

// Everyone tells once. What is found later is not told any more, so it can't count here either: this stage would end
// with another reason than those who have not heard of it.
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
  silent_.insert(from);  // it tells nothing more
  const bool first = !begun();
  consider(told);
  // Told on, since whoever failed may have reached only some before its process ended.
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
  // Whoever is lost tells nothing any more, to anyone: a run that fails has no time to wait for it.
  if (reason.lost) silent_.insert(static_cast<int>(reason.stage));
  // A stage that fails ends, and its peers then lose it: what it says of itself is the cause, the loss only follows.
  // The rest is an order that is the same everywhere, down to two stages that describe one loss in other words.
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
