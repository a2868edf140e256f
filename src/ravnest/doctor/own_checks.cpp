#include "ravnest/doctor/own_checks.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ravnest/doctor/caller.h"
#include "ravnest/net/port_owner.h"
#include "ravnest/net/resolve.h"
#include "ravnest/plan/peers.h"
#include "ravnest/transport/tcp/contact.h"

namespace ravnest::doctor {
namespace {

namespace fs = std::filesystem;
namespace tcp = transport::tcp;

Finding key_file(const plan::PlanHere& here, int node) {
  const fs::path key = plan::folder_of(here, node) / identity::kKeyFile;
  std::error_code error;
  const fs::perms mode = fs::status(key, error).permissions();
  if (error || (mode & (fs::perms::group_all | fs::perms::others_all)) == fs::perms::none)
    return {Severity::kOk, plan::node_name(node), "its key is private"};
  return {Severity::kProblem, plan::node_name(node),
          text("its key is open to other users of this machine, who could pose as it: chmod 600 ", key.string())};
}

// Sound by themselves, the files may still be of another plan than the one that lies beside them.
Status check_plan(const plan::PlanHere& here, int node, const identity::StoredIdentity& stored) {
  const auto authority = identity::certificate_subject(stored.authority_certificate);
  if (!authority.ok()) return authority.status();
  if (*authority == text("ravnest plan ", here.plan.id)) return {};
  return invalid("the certificate of ", plan::node_name(node), " is of ", *authority, ", but the plan in ",
                 here.node_data.string(), " is ", here.plan.id,
                 ": pack this node again from the plan and unpack the new package here");
}

std::vector<std::string> hosts(const std::vector<HostAddress>& addresses) {
  std::vector<std::string> written;
  for (const HostAddress& address : addresses) {
    if (std::ranges::find(written, address.host()) == written.end()) written.push_back(address.host());
  }
  return written;
}

// A peer with an address that is not this machine's own; -1: none.
int peer_elsewhere(const plan::Plan& plan, int node) {
  for (const int other : plan::peers_of(plan, node)) {
    if (!tcp::is_loopback(dialled(plan.pool.nodes[other].address).host)) return other;
  }
  return -1;
}

}  // namespace

std::vector<Finding> check_identity(const plan::PlanHere& here, int node, identity::WallTime now) {
  const std::string name = plan::node_name(node);
  const auto stored = identity::read_identity(plan::folder_of(here, node));
  if (!stored.ok()) {
    return {{Severity::kProblem, name,
             text("its identity is not here (", stored.status().message(),
                  "): pack it where the plan was made, and unpack the package here")}};
  }
  const Status sound = identity::check_identity(stored->identity, stored->authority_certificate, name, now);
  const Status of_plan = sound.ok() ? check_plan(here, node, *stored) : Status();
  std::vector<Finding> findings;
  if (!sound.ok()) {
    findings.push_back({Severity::kProblem, name, sound.message()});
  } else if (!of_plan.ok()) {
    findings.push_back({Severity::kProblem, name, of_plan.message()});
  } else {
    findings.push_back({Severity::kOk, name, "its certificate is of this plan and valid now"});
  }
  findings.push_back(key_file(here, node));
  return findings;
}

std::vector<Finding> check_address(const plan::PlanHere& here, int node, const Wait& wait) {
  const std::string name = plan::node_name(node);
  const plan::PoolNode& own = here.plan.pool.nodes[node];
  const auto found = resolve(own.address.host, own.address.port, Lookup::kToConnect, wait);
  if (!found.ok()) {
    return {{Severity::kProblem, name,
             text(found.status().message(), ": correct its address in the pool file, or this machine's name service")}};
  }
  const std::string stands_for = join(hosts(*found));
  const int elsewhere = peer_elsewhere(here.plan, node);
  if (elsewhere >= 0 && std::ranges::all_of(*found, [](const auto& a) { return a.is_any() || a.is_loopback(); })) {
    return {{Severity::kWarning, name,
             text(own.address, " can be dialled on this machine only, but ", plan::describe(here.plan.pool, elsewhere),
                  " may be on another: give it an \"IP\" that others can reach, and 0.0.0.0 as \"bind\"")}};
  }
  if (std::ranges::any_of(*found, is_here))
    return {{Severity::kOk, name, text(own.address, " is an address of this machine (", stands_for, ")")}};
  if (own.bind)
    return {{Severity::kOk, name, text(own.address, " stands for ", stands_for, "; it listens at ", *own.bind)}};
  return {{Severity::kProblem, name,
           text(own.address, " stands for ", stands_for, ", which is not an address of this machine (",
                join(own_addresses()),
                "): correct it in the pool file; or, where another machine forwards to this one, "
                "set \"bind\" there to 0.0.0.0 and the port")}};
}

OwnPort take_port(const plan::PlanHere& here, int node, const std::string& software,
                  std::function<void(const std::string& asker)> on_asked, const Wait& wait) {
  const std::string name = plan::node_name(node);
  const Address at = plan::listens_at(here.plan, node);
  const auto own = caller(here, node, software);
  if (!own.ok()) return {{Severity::kProblem, name, text("its port was not tried: ", own.status().message())}, nullptr};

  tcp::Options options;
  options.name = name;
  options.plan = here.plan.id;
  options.software = software;
  options.listen = at;
  for (const int other : plan::peers_of(here.plan, node)) options.peers.push_back(peer(here.plan, other));
  options.identity = identity::read_identity(plan::folder_of(here, node)).value();
  options.probes_only = true;
  options.on_asked = std::move(on_asked);
  options.log = Logger("doctor", Level::kOff);
  auto listening = tcp::open(std::move(options));
  if (listening.ok()) {
    return {{Severity::kOk, name, text("port ", at.port, " is free; doctor answers there as ", name, " meanwhile")},
            std::move(listening).value()};
  }
  if (listening.status().code() != Code::kUnavailable)
    return {{Severity::kProblem, name, text(listening.status().message(), ": choose another address or port")},
            nullptr};

  const tcp::Reached itself = tcp::reach(*own, {name, at}, wait);
  if (itself.trouble == tcp::Trouble::kNone)
    return {{Severity::kOk, name, text("answers at port ", at.port, " already: it is running")}, nullptr};
  const std::string program = port_owner(at.port);
  return {{Severity::kProblem, name,
           text("port ", at.port, " is taken by ", program.empty() ? "another program" : program, " (",
                itself.status.message(), "): end that program, or give ", name, " another port and plan anew")},
          nullptr};
}

}  // namespace ravnest::doctor
