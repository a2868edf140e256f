// The whole examination of the nodes of this machine.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/doctor/findings.h"
#include "ravnest/plan/files/local_plan.h"

namespace ravnest::doctor {

struct ExamineOptions {
  std::string software;
  // For so long peers that are not there yet are tried again, and a little longer those that were late can still ask.
  Duration wait{};
  Duration patience = std::chrono::seconds(5);  // with one attempt to reach a node
  int stop = -1;                                // readable: end at once
};

// Listens at the nodes' ports while it lasts. `on_finding` is told each finding as soon as it is there, from several
// threads but one at a time. kCancelled where asked to stop.
Result<std::vector<Finding>> examine(const plan::PlanHere& here, const std::vector<int>& nodes,
                                     const ExamineOptions& options,
                                     const std::function<void(const Finding&)>& on_finding = {});

}  // namespace ravnest::doctor
