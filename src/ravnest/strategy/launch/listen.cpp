#include "ravnest/strategy/launch/listen.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/net/background_tasks.h"
#include "ravnest/net/port_owner.h"
#include "ravnest/net/resolve.h"
#include "ravnest/strategy/launch/reminder.h"

namespace ravnest::strategy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::tcp::is_loopback;
using Found = Result<std::vector<HostAddress>>;

constexpr Duration kLookupTime = seconds(60);
constexpr Duration kAskEvery = milliseconds(100);
// A name that was made a moment ago is not known everywhere yet.
constexpr Duration kNameTime = seconds(3);
constexpr Duration kAgain = milliseconds(500);
constexpr const char* kThisMachine = "127.0.0.1";

Status pause(Duration length, const Poll& poll) {
  for (const TimePoint until = SystemClock().now() + length; SystemClock().now() < until;) {
    if (Status goes_on = poll(); !goes_on.ok()) return goes_on;
    (void)wait_for(-1, 0, Wait::of(kAskEvery));
  }
  return {};
}

// Asks `poll`, and returns what that says, while the name service takes its time: nothing can cut it short.
Status look_up(const std::string& host, const Poll& poll, Found& found) {
  BackgroundTasks<Found> tasks;
  const auto ask = [host](int stop) { return resolve(host, 0, Lookup::kToConnect, Wait::of(kLookupTime, stop)); };
  if (Status started = tasks.start(ask); !started.ok()) return started;
  while (!wait_for(tasks.ready(), POLLIN, Wait::of(kAskEvery)).ok()) {
    if (Status goes_on = poll(); !goes_on.ok()) return goes_on;
  }
  found = std::move(tasks.take().front());
  return {};
}

Status not_here(const Address& master, const std::vector<HostAddress>& found) {
  std::vector<std::string> own;
  for (const std::string& address : own_addresses()) {
    if (!is_loopback(address) && !address.starts_with("fe80")) own.push_back(address);
  }
  const std::string number = found.front().host();
  return invalid("MASTER_ADDR ", master.host, number == master.host ? "" : text(" (", number, ")"),
                 " is not this machine, where rank 0 runs", own.empty() ? "" : text(" (", join(own), ")"),
                 ": start rank 0 there, or set MASTER_ADDR to this machine's address");
}

Status taken(const Status& status, std::uint16_t port) {
  const std::string owner = port_owner(port);
  return {status.code(), text("MASTER_PORT ", port, " is taken", owner.empty() ? "" : text(" by ", owner),
                              ": end what listens there, or choose another port for all ranks")};
}

// As others are to dial it: an empty host where only the master's own name will do.
Result<Address> own_address(const RendezvousOptions& options, std::uint16_t port) {
  if (!options.host.empty()) return Address{options.host, port};
  const auto found = resolve(options.place.master.host, port, Lookup::kToConnect, Wait::of(seconds(10)));
  if (!found.ok()) return found.status().with_context("MASTER_ADDR");
  const std::string own = own_address_towards(found->front());
  return Address{is_loopback(own) ? "" : own, port};
}

}  // namespace

Status check_options(const RendezvousOptions& options) {
  const Place& place = options.place;
  if (!place.rank) return invalid("this process is no rank: it is to start the ranks of its machine");
  if (*place.rank < 0 || *place.rank >= place.world)
    return invalid("rank ", *place.rank, " is beyond the world of ", place.world, ": ranks count from 0 to ",
                   place.world - 1);
  if (place.world == 1) return {};
  if (place.agent_store && !options.exchange)
    return invalid("torchrun's agent holds MASTER_PORT, and there is no other way to find rank 0");
  if (!options.exchange && place.master.port == 0)
    return invalid("the ranks have no port to meet at: set MASTER_PORT, or give --master HOST:PORT");
  if (!options.token && !is_loopback(place.master.host))
    return invalid("ranks that meet at ", place.master.host,
                   " need a token, or anyone there could be one of them: make one with `ravnest token`, and give all "
                   "ranks the same one, by RAVNEST_TOKEN or --token-file");
  return {};
}

Status check_master(const RendezvousOptions& options, const Poll& poll) {
  const Address& master = options.place.master;
  if (options.place.world == 1) return {};
  const SystemClock clock;
  const TimePoint until = clock.now() + kNameTime;
  std::string reason;
  const Poll saying = with_reminder(poll, options.log, [&] {
    return text("waiting for MASTER_ADDR ", master.host, " to have an address", reason.empty() ? "" : " (", reason,
                reason.empty() ? "" : ")");
  });
  for (;;) {
    Found found = std::vector<HostAddress>();
    if (Status goes_on = look_up(master.host, saying, found); !goes_on.ok()) return goes_on;
    if (found.ok()) {
      const bool here = std::ranges::any_of(*found, is_here);
      return here || *options.place.rank != 0 || options.exchange ? Status() : not_here(master, *found);
    }
    // A name service that fails for now may know it later, however long that takes.
    if (found.status().code() == Code::kInvalid && clock.now() >= until)
      return found.status().with_context("MASTER_ADDR");
    reason = found.status().message();
    if (Status goes_on = pause(kAgain, saying); !goes_on.ok()) return goes_on;
  }
}

Result<std::unique_ptr<transport::tcp::NetworkEndpoint>> open_rank(const RendezvousOptions& options,
                                                                   const transport::tcp::Options& basis) {
  const Place& place = options.place;
  const bool alone = place.world == 1;
  const bool at_master = *place.rank == 0 && !options.exchange && !alone;
  transport::tcp::Options own = basis;
  own.listen.host = alone ? kThisMachine : is_loopback(place.master.host) ? place.master.host : "";
  const PortRange ports = at_master ? PortRange{place.master.port, place.master.port}
                          : alone   ? PortRange{}
                                    : options.ports;
  for (int port = ports.first; port <= ports.last; ++port) {
    own.listen.port = static_cast<std::uint16_t>(port);
    auto opened = transport::tcp::open(own);
    if (opened.ok() || opened.status().code() != Code::kUnavailable) return opened;
    if (at_master) return taken(opened.status(), place.master.port);
    if (port == 0) return opened;
  }
  return unavailable("all ports from ", ports.first, " to ", ports.last, " are taken on the machine of rank ",
                     *place.rank, ": give more of them by --ports");
}

Result<Address> find_rank_0(const RendezvousOptions& options, std::uint16_t port, const Poll& poll) {
  Address master = options.place.master;
  if (!options.exchange || options.place.world == 1) return master;
  const bool is_here = *options.place.rank == 0;
  const Poll saying = with_reminder(poll, options.log, [&] {
    return text("waiting for rank 0 to tell its address by torchrun's store at ", master);
  });
  const auto found = is_here ? own_address(options, port) : options.exchange->find(saying);
  if (!found.ok()) return found.status();
  if (is_here) {
    if (Status published = options.exchange->publish(*found); !published.ok()) return published;
  }
  master.port = found->port;
  if (!found->host.empty()) master.host = found->host;
  return master;
}

}  // namespace ravnest::strategy
