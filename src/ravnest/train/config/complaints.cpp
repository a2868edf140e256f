#include "ravnest/train/config/complaints.h"

#include <algorithm>
#include <limits>
#include <span>

#include "ravnest/base/text.h"

namespace ravnest::train {
namespace {

constexpr std::size_t kMostShown = 20;

}  // namespace

bool Complaints::has(int line) const {
  return std::ranges::any_of(all_, [&](const Complaint& each) { return each.line == line; });
}

Status Complaints::status() const {
  std::vector<Complaint> sorted = all_;
  // What has no line is missing, and would stand at the end.
  std::ranges::stable_sort(
      sorted, {}, [](const Complaint& each) { return each.line > 0 ? each.line : std::numeric_limits<int>::max(); });
  if (sorted.empty()) return {};
  std::string message;
  for (const Complaint& each : std::span(sorted).first(std::min(sorted.size(), kMostShown))) {
    const std::string where = each.line > 0 ? text(", line ", each.line) : "";
    message += text(message.empty() ? "" : "\n", file_, where, ": ", each.sentence);
  }
  if (sorted.size() > kMostShown) message += text("\n", file_, ": and ", sorted.size() - kMostShown, " more");
  return invalid(message);
}

}  // namespace ravnest::train
