#include "ravnest/strategy/launch/rendezvous.h"

#include <charconv>
#include <memory>
#include <string_view>

#include "ravnest/base/check.h"
#include "ravnest/strategy/launch/attendance.h"
#include "ravnest/strategy/launch/listen.h"
#include "ravnest/strategy/launch/run_identity.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace ravnest::strategy {
namespace {

constexpr std::string_view kRankPrefix = "rank_";

std::string run_id_of(const Place& place) {
  return place.restarts == 0 ? place.run_id : text(place.run_id, " restart ", place.restarts);
}

Result<transport::tcp::Options> endpoint_options(const RendezvousOptions& options, const std::shared_ptr<Door>& door) {
  const Place& place = options.place;
  transport::tcp::Options network;
  network.name = rank_name(*place.rank);
  network.software = options.software;
  network.log = options.log;
  auto plan = run_plan(options.token, run_id_of(place));
  if (!plan.ok()) return plan.status();
  network.plan = *std::move(plan);
  for (int rank = 0; rank < place.world; ++rank) {
    if (rank != *place.rank) network.peers.push_back({.name = rank_name(rank)});
  }
  network.on_turned_away = [door](const transport::tcp::TurnedAway& who) { return door->turn_away(who); };
  if (!options.token) {
    network.insecure = transport::tcp::Insecure::kOnLoopback;
    return network;
  }
  auto identity = run_identity(*options.token, *place.rank);
  if (!identity.ok()) return identity.status();
  network.identity = *std::move(identity);
  return network;
}

}  // namespace

std::string rank_name(int rank) { return text(kRankPrefix, rank); }

std::optional<int> rank_of(const std::string& name) {
  if (!name.starts_with(kRankPrefix)) return std::nullopt;
  int rank = -1;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kRankPrefix.size(), end, rank);
  return error == std::errc() && at == end && rank >= 0 && rank_name(rank) == name ? std::optional(rank) : std::nullopt;
}

Result<PortRange> parse_ports(const std::string& written) {
  const auto refused = [&] {
    return invalid("\"", written, "\" are no ports: expected FIRST-LAST, such as 40000-40100");
  };
  const std::size_t dash = written.find('-');
  if (dash == std::string::npos) return refused();
  const auto number = [](const std::string& digits) {
    unsigned value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && at == end && value <= 65535 ? value : 0;
  };
  const unsigned first = number(written.substr(0, dash));
  const unsigned last = number(written.substr(dash + 1));
  if (first == 0 || last < first) return refused();
  return PortRange{static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last)};
}

namespace {

// At the meeting, with nobody met yet. Both outlive it.
Result<std::unique_ptr<Attendance>> arrive(const RendezvousOptions& options, const Poll& poll) {
  if (Status sound = check_options(options); !sound.ok()) return sound;
  if (Status known = check_master(options, poll); !known.ok()) return known;
  const auto door = std::make_shared<Door>(*options.place.rank, options.place.world, options.place.run_id);
  const auto network = endpoint_options(options, door);
  if (!network.ok()) return network.status();
  auto endpoint = open_rank(options, *network);
  if (!endpoint.ok()) return endpoint.status();
  const auto master = find_rank_0(options, (*endpoint)->port(), poll);
  if (!master.ok()) return master.status();
  return std::make_unique<Attendance>(options, poll, *std::move(endpoint), *master, door);
}

}  // namespace

Result<Met> meet(RendezvousOptions options, const Poll& poll) {
  const auto attendance = arrive(options, poll);
  return attendance.ok() ? (*attendance)->attend() : attendance.status();
}

Status withdraw(RendezvousOptions options, const std::string& reason, const Poll& poll) {
  RAVNEST_CHECK(options.place.world > 1, "a rank that is alone has nobody to tell");
  options.settings.push_back({kWithdraws, reason});
  const auto attendance = arrive(options, poll);
  if (attendance.ok()) return (*attendance)->attend().status();
  const Status why = attendance.status();
  if (why.code() == Code::kCancelled) return why;
  return invalid("rank ", *options.place.rank, " ", reason, ". The others do not hear of it: ", why.message());
}

}  // namespace ravnest::strategy
