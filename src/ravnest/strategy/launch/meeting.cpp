#include "ravnest/strategy/launch/meeting.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/check.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace ravnest::strategy {
namespace {

void append(MeetingActions& actions, MeetingActions more) { std::ranges::move(more, std::back_inserter(actions)); }

}  // namespace

Meeting::Meeting(int rank, wire::Join own, std::string master_host)
    : rank_(rank), own_(std::move(own)), master_host_(std::move(master_host)) {
  RAVNEST_CHECK(rank >= 0 && rank < world(), "rank ", rank, " of ", world());
  if (is_host()) joined_[0] = {"", own_.port};
  note_withdrawal(rank, own_);
  // Alone, it has met everyone.
  if (world() == 1) phase_ = Phase::kMet;
}

void Meeting::go_to(Phase next) {
  const bool forward = (phase_ == Phase::kGathering && next == Phase::kConnecting) ||
                       (phase_ == Phase::kConnecting && next == Phase::kMet);
  const bool may_fail = phase_ == Phase::kGathering || phase_ == Phase::kConnecting;
  RAVNEST_CHECK(forward || (may_fail && next == Phase::kFailed), "rank ", rank_, " goes from phase ",
                static_cast<int>(phase_), " of the meeting to ", static_cast<int>(next));
  RAVNEST_CHECK((next == Phase::kFailed) == failure_.has_value(), "rank ", rank_, " in phase ", static_cast<int>(next));
  phase_ = next;
}

// -- what happens

MeetingActions Meeting::on_up(int rank, const std::string& host) {
  RAVNEST_CHECK(rank != rank_, "rank ", rank, " meets itself");
  up_[rank] = host;
  if (is_host()) {
    if (phase_ == Phase::kGathering) return begin_if_all_joined();
    if (phase_ != Phase::kFailed || !told_.insert(rank).second) return {};
    return {Tell{rank, *failure_}};
  }
  if (phase_ == Phase::kGathering && rank == 0) return {Tell{0, wire::Meeting(own_)}};
  return say_if_connected();
}

MeetingActions Meeting::on_gone(int rank) {
  up_.erase(rank);
  MeetingActions actions;
  if (phase_ == Phase::kConnecting && (is_host() || rank == 0))
    actions = end({.stage = static_cast<std::uint32_t>(rank),
                   .lost = true,
                   .reason = text(shown(rank), " was lost before all ranks had met")});
  // Another process may come in its place; it has to be told of everything anew.
  if (is_host()) {
    joined_.erase(rank);
    withdrawn_.erase(rank);
  }
  told_.erase(rank);
  return actions;
}

MeetingActions Meeting::on_message(int from, const wire::Meeting& message) {
  if (const auto* join = std::get_if<wire::Join>(&message)) return on_join(from, *join);
  if (std::holds_alternative<wire::Connected>(message)) return on_connected(from);
  if (is_host() || from != 0) return {};  // what follows is for rank 0 to say
  if (const auto* table = std::get_if<wire::Table>(&message)) return on_table(*table);
  if (phase_ == Phase::kConnecting) go_to(Phase::kMet);
  return {};
}

MeetingActions Meeting::on_failed(int from, const wire::Failed& failed) {
  // Those who have met and failed since tell everyone; that is for after the meeting.
  if (!is_host() && from != 0) return {};
  wire::Failed told = failed;
  told.reason = printable_reason(told.reason);
  return end(std::move(told));
}

MeetingActions Meeting::fail(const std::string& sentence) {
  const wire::Failed failed{
      .stage = static_cast<std::uint32_t>(rank_), .lost = false, .reason = printable_reason(sentence)};
  if (phase_ == Phase::kFailed || phase_ == Phase::kMet) return {};
  MeetingActions actions = end(failed);
  if (!is_host() && up_.contains(0)) actions.emplace_back(Tell{0, failed});
  return actions;
}

// -- rank 0's part

MeetingActions Meeting::on_join(int from, const wire::Join& join) {
  if (!is_host() || phase_ != Phase::kGathering) return {};
  // No rank of ours says that it is, say, rank 7 of 4.
  if (from < 1 || static_cast<std::uint32_t>(from) >= join.world) return {};
  const std::string& seen = up_[from];
  // Loopback means another machine to everyone but those on this one.
  const bool is_here = join.host.empty() && transport::tcp::is_loopback(seen);
  joined_[from] = {!join.host.empty() ? printable(join.host) : is_here ? "" : seen, join.port};
  note_withdrawal(from, join);
  if (const auto why = misfit(from, join))
    return end({.stage = static_cast<std::uint32_t>(from), .lost = false, .reason = *why});
  return begin_if_all_joined();
}

void Meeting::note_withdrawal(int rank, const wire::Join& join) {
  withdrawn_.erase(rank);
  const auto found = std::ranges::find(join.settings, kWithdraws, &wire::Setting::name);
  if (found != join.settings.end()) withdrawn_[rank] = printable_reason(found->value);
}

std::optional<std::string> Meeting::misfit(int from, const wire::Join& join) const {
  if (join.world != own_.world)
    return text(shown(from), " was started for ", join.world, " ranks, and rank 0 for ", own_.world,
                ": start all ranks for the same number");
  // Who could not even read its model has no settings to compare.
  if (!withdrawn_.empty()) return std::nullopt;
  const auto value_in = [](const std::vector<wire::Setting>& settings, const std::string& name) {
    const auto found = std::ranges::find(settings, name, &wire::Setting::name);
    return found == settings.end() ? std::string("none") : printable(found->value);
  };
  const auto differs = [&](const wire::Setting& setting) {
    return value_in(join.settings, setting.name) != value_in(own_.settings, setting.name);
  };
  for (const auto* settings : {&own_.settings, &join.settings}) {
    const auto found = std::ranges::find_if(*settings, differs);
    if (found == settings->end()) continue;
    return text(shown(from), " was started with ", printable(found->name), " ", value_in(join.settings, found->name),
                ", and rank 0 with ", value_in(own_.settings, found->name), ": start all ranks with the same");
  }
  return std::nullopt;
}

MeetingActions Meeting::begin_if_all_joined() {
  if (!missing().empty()) return {};
  RAVNEST_CHECK(is_host() && static_cast<int>(joined_.size()) == world(), "rank ", rank_, " has the addresses of ",
                joined_.size(), " of ", world(), " ranks");
  if (const auto why = withdrawal())
    return end({.stage = static_cast<std::uint32_t>(withdrawn_.begin()->first), .lost = false, .reason = *why});
  go_to(Phase::kConnecting);
  wire::Table table;
  for (const auto& [rank, address] : joined_) table.addresses.push_back(address);
  MeetingActions actions;
  for (int rank = 1; rank < world(); ++rank) actions.emplace_back(Tell{rank, wire::Meeting(table)});
  return actions;
}

MeetingActions Meeting::on_connected(int from) {
  if (!is_host() || phase_ != Phase::kConnecting || !joined_.contains(from)) return {};
  connected_.insert(from);
  if (static_cast<int>(connected_.size()) < world() - 1) return {};
  go_to(Phase::kMet);
  MeetingActions actions;
  for (int rank = 1; rank < world(); ++rank) actions.emplace_back(Tell{rank, wire::Meeting(wire::AllConnected())});
  return actions;
}

// -- the others' part

MeetingActions Meeting::on_table(const wire::Table& table) {
  if (phase_ != Phase::kGathering || static_cast<int>(table.addresses.size()) != world()) return {};
  go_to(Phase::kConnecting);
  MeetingActions actions;
  for (int rank = 0; rank < world(); ++rank) {
    wire::RankAddress address = table.addresses[static_cast<std::size_t>(rank)];
    if (address.host.empty()) address.host = master_host_;
    address.host = printable(address.host);
    joined_[rank] = address;
    if (rank != rank_ && rank != 0) actions.emplace_back(Reach{rank, {address.host, address.port}});
  }
  append(actions, say_if_connected());
  return actions;
}

MeetingActions Meeting::say_if_connected() {
  if (phase_ != Phase::kConnecting || static_cast<int>(up_.size()) < world() - 1) return {};
  return {Tell{0, wire::Meeting(wire::Connected())}};
}

// -- the end

MeetingActions Meeting::end(wire::Failed failure) {
  if (phase_ == Phase::kFailed || phase_ == Phase::kMet) return {};
  failure_ = std::move(failure);
  go_to(Phase::kFailed);
  MeetingActions actions;
  if (!is_host()) return actions;
  for (int rank = 1; rank < world(); ++rank) {
    if (!up_.contains(rank) && !joined_.contains(rank)) continue;
    told_.insert(rank);
    actions.emplace_back(Tell{rank, *failure_});
  }
  return actions;
}

// -- for messages

std::optional<std::string> Meeting::withdrawal() const {
  if (withdrawn_.empty()) return std::nullopt;
  const auto& [rank, why] = *withdrawn_.begin();
  return text(shown(rank), " ", why);
}

std::vector<int> Meeting::missing() const {
  std::vector<int> missing;
  const auto is_missing = [&](int rank) {
    if (phase_ == Phase::kMet || rank == rank_) return false;
    if (phase_ == Phase::kGathering && !is_host()) return rank == 0 && !up_.contains(0);
    if (phase_ == Phase::kGathering) return !joined_.contains(rank) || !up_.contains(rank);
    return is_host() ? !connected_.contains(rank) : !up_.contains(rank);
  };
  for (int rank = 0; rank < world(); ++rank) {
    if (is_missing(rank)) missing.push_back(rank);
  }
  return missing;
}

std::vector<int> Meeting::untold() const {
  std::vector<int> untold;
  for (int rank = 1; is_host() && failure_ && rank < world(); ++rank) {
    if (!told_.contains(rank)) untold.push_back(rank);
  }
  return untold;
}

std::string Meeting::host(int rank) const {
  const auto found = joined_.find(rank);
  if (rank == 0 || (found != joined_.end() && found->second.host.empty())) return master_host_;
  if (found != joined_.end()) return found->second.host;
  const auto seen = up_.find(rank);
  return seen == up_.end() ? "" : seen->second;
}

std::string Meeting::shown(int rank) const {
  const std::string where = host(rank);
  return where.empty() ? text("rank ", rank) : text("rank ", rank, " (", where, ")");
}

}  // namespace ravnest::strategy
