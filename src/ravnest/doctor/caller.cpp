#include "ravnest/doctor/caller.h"

#include <chrono>
#include <optional>
#include <utility>

#include "ravnest/base/text.h"
#include "ravnest/identity/identity.h"
#include "ravnest/transport/tcp/tls.h"

namespace ravnest::doctor {

using transport::tcp::Caller;

transport::tcp::Peer peer(const plan::Plan& plan, int node) {
  return {plan::node_name(node), plan.pool.nodes[node].address};
}

Result<Caller> caller(const plan::PlanHere& here, int node, const std::string& software) {
  const std::string name = plan::node_name(node);
  const auto identity = identity::read_identity(plan::folder_of(here, node));
  if (!identity.ok()) {
    return Status(identity.status().code(),
                  text("the identity of ", name, " is not here (", identity.status().message(),
                       "): unpack its package here, or act as another node"));
  }
  const Status sound = identity::check_identity(identity->identity, identity->authority_certificate, name,
                                                std::chrono::system_clock::now());
  if (!sound.ok()) return sound;
  auto tls = transport::tcp::TlsContext::create(*identity);
  if (!tls.ok()) return tls.status();
  return Caller{name, here.plan.id, software, std::move(tls).value()};
}

Caller insecure_caller(const plan::PlanHere& here, int node, const std::string& software) {
  return {plan::node_name(node), here.plan.id, software, std::nullopt};
}

}  // namespace ravnest::doctor
