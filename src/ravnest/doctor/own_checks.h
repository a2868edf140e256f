// What can be found wrong with a node without asking any other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ravnest/doctor/findings.h"
#include "ravnest/identity/identity.h"
#include "ravnest/net/socket.h"
#include "ravnest/plan/files/local_plan.h"
#include "ravnest/transport/endpoint.h"

namespace ravnest::doctor {

// Whether the identity is here, sound at `now`, of this plan, and kept from others' eyes.
std::vector<Finding> check_identity(const plan::PlanHere& here, int node, identity::WallTime now);

// Whether the node's host stands for an address, one of this machine's unless the node listens elsewhere.
std::vector<Finding> check_address(const plan::PlanHere& here, int node, const Wait& wait);

// Listens at the node's port, as the node but for questions only, unless the node itself does so already.
struct OwnPort {
  Finding finding;
  std::unique_ptr<transport::Endpoint> listening;  // for as long as it lives; null where the port was not free
};
OwnPort take_port(const plan::PlanHere& here, int node, const std::string& software,
                  std::function<void(const std::string& asker)> on_asked, const Wait& wait);

}  // namespace ravnest::doctor
