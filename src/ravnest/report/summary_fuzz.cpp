// Any message: whatever a node says of its work, there is a summary of it to print.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <variant>

#include "ravnest/report/summary.h"
#include "ravnest/wire/message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest;
  const auto message = wire::decode({std::as_bytes(std::span(data, size)), nullptr});
  if (!message.ok() || !std::holds_alternative<wire::Account>(*message)) return 0;
  const wire::NodeWork& work = std::get<wire::Account>(*message).work;
  const report::NodeSummary root{"node_0", "root", {.running_s = 1, .forward_s = 0.5, .passes = 10, .updates = 10}};
  for (const bool leads : {false, true}) {
    report::RunSummary run{.seconds = 1, .nodes = {root, {"node_1", "leaf", work}}};
    if (leads) std::swap(run.nodes[0].work, run.nodes[1].work);
    if (report::summary_text(run).empty()) std::abort();
  }
  return 0;
}
