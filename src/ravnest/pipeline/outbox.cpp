#include "ravnest/pipeline/outbox.h"

#include <variant>

namespace ravnest::pipeline {
namespace {

using transport::Priority;

Priority priority_of(const wire::Message& message) {
  if (std::holds_alternative<wire::Backward>(message)) return Priority::kHigh;
  if (std::holds_alternative<wire::Failed>(message) || std::holds_alternative<wire::Over>(message) ||
      std::holds_alternative<wire::Control>(message))
    return Priority::kUrgent;
  return Priority::kNormal;
}

}  // namespace

Status Outbox::send(int stage, wire::Message message) {
  const Priority priority = priority_of(message);
  return outbox_.send(nodes_[static_cast<std::size_t>(stage)], std::move(message), priority);
}

Status Outbox::send_to_others(const wire::Message& message) {
  for (int stage = 0; stage < static_cast<int>(nodes_.size()); ++stage) {
    if (stage == self_) continue;
    if (Status sent = send(stage, message); !sent.ok()) return sent;
  }
  return {};
}

}  // namespace ravnest::pipeline
