// The nodes of a plan, for those who talk to them over the network.
#pragma once

#include <string>

#include "ravnest/base/status.h"
#include "ravnest/plan/files/local_plan.h"
#include "ravnest/transport/tcp/contact.h"

namespace ravnest::doctor {

// Where others dial it.
transport::tcp::Peer peer(const plan::Plan& plan, int node);

// kNotFound where the node's identity is not here, kInvalid or kCorrupt where it is no good.
Result<transport::tcp::Caller> caller(const plan::PlanHere& here, int node, const std::string& software);
// One who shows no certificate, for nodes that were started insecure.
transport::tcp::Caller insecure_caller(const plan::PlanHere& here, int node, const std::string& software);

}  // namespace ravnest::doctor
