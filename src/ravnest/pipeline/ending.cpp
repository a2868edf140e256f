#include "ravnest/pipeline/ending.h"

#include <tuple>

namespace ravnest::pipeline {

std::optional<wire::Failed> Ending::fail(wire::Failed reason) {
  consider(reason);
  if (told_) return std::nullopt;
  told_ = true;
  return reason;
}

std::optional<wire::Failed> Ending::on_failed(int from, const wire::Failed& told) {
  silent_.insert(from);
  return fail(told);
}

void Ending::consider(const wire::Failed& reason) {
  if (reason.lost) silent_.insert(static_cast<int>(reason.stage));
  const auto rank = [](const wire::Failed& one) { return std::tie(one.lost, one.stage, one.reason); };
  if (!reason_ || rank(reason) < rank(*reason_)) reason_ = reason;
}

bool Ending::settled() const {
  std::set<int> silent = silent_;
  silent.insert(self_);
  return begun() && silent.size() == static_cast<std::size_t>(count_);
}

}  // namespace ravnest::pipeline
