// A stage's way to the other stages of its cluster: by their numbers, and never waiting (transport/outbox.h). What is
// kept is bounded by the passes in flight. One thread uses it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/transport/outbox.h"

namespace ravnest::pipeline {

class Outbox {
 public:
  // `nodes` are the stages' names.
  Outbox(transport::Endpoint& endpoint, std::vector<std::string> nodes, int self)
      : outbox_(endpoint, transport::Channel::kTraining), nodes_(std::move(nodes)), self_(self) {}

  Status send(int stage, wire::Message message);
  Status send_to_others(const wire::Message& message);
  Status flush() { return outbox_.flush(); }

 private:
  transport::Outbox outbox_;
  const std::vector<std::string> nodes_;
  const int self_;
};

}  // namespace ravnest::pipeline
