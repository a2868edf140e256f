#include "ravnest/strategy/launch/attendance.h"

#include <chrono>
#include <utility>
#include <variant>

namespace ravnest::strategy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::PeerChange;
using transport::PeerState;
using transport::PeerTrouble;

constexpr Duration kPollEvery = milliseconds(100);
// What was there before may be just about to end: an earlier run, with another token, or another program.
constexpr Duration kPatience = seconds(3);
// Rank 0 waits this long for those who have not come yet, to tell them why the run does not begin.
constexpr Duration kLinger = seconds(3);
constexpr Duration kGoodbye = seconds(1);

}  // namespace

Attendance::Attendance(const RendezvousOptions& options, const Poll& poll,
                       std::unique_ptr<transport::tcp::NetworkEndpoint> endpoint, Address master,
                       std::shared_ptr<Door> door)
    : options_(options),
      poll_(poll),
      rank_(*options.place.rank),
      endpoint_(std::move(endpoint)),
      master_(std::move(master)),
      door_(std::move(door)),
      meeting_(rank_, introduction(), master_.host),
      reminder_(clock_.now()) {}

Result<Met> Attendance::attend() {
  if (rank_ != 0) {
    if (Status met = endpoint_->meet(rank_name(0), master_); !met.ok()) return met;
  }
  while (!meeting_.met() && !meeting_.failure()) {
    if (Status goes_on = poll_(); !goes_on.ok()) return interrupted(goes_on);
    if (Status heard = listen(clock_.now() + kPollEvery); !heard.ok()) return give_up(heard);
    if (const auto complaint = door_->complaint()) perform(meeting_.fail(*complaint));
    if (Status reaches = check_master(); !reaches.ok()) return give_up(reaches);
    say_for_whom();
  }
  if (meeting_.met()) return result();
  return end();
}

wire::Join Attendance::introduction() const {
  wire::Join join{.world = static_cast<std::uint32_t>(options_.place.world),
                  .host = options_.host,
                  .port = endpoint_->port(),
                  .settings = options_.settings};
  join.settings.push_back({"release", options_.software});
  return join;
}

// What the channel of the averaging has by now is of those who came and went; a communicator would take it for a loss.
void Attendance::forget_the_meeting() {
  while (endpoint_->receive(TimePoint(), transport::Channel::kAveraging).ok()) {
  }
}

Status Attendance::listen(TimePoint until) {
  auto event = endpoint_->receive(until);
  if (!event.ok()) return event.status().code() == Code::kDeadline ? Status() : event.status();
  const auto from = rank_of(event->peer);
  if (!from) return {};
  const auto* message = std::get_if<wire::Message>(&event->what);
  const auto* meeting = message ? std::get_if<wire::Meeting>(message) : nullptr;
  const auto* failed = message ? std::get_if<wire::Failed>(message) : nullptr;
  if (message == nullptr) {
    on_change(*from, *std::move(event));
  } else if (meeting != nullptr) {
    perform(meeting_.on_message(*from, *meeting));
  } else if (failed != nullptr && (rank_ == 0 || *from == 0)) {
    perform(meeting_.on_failed(*from, *failed));
  } else {
    early_.push_back(*std::move(event));
  }
  return {};
}

void Attendance::on_change(int from, transport::Event event) {
  const PeerState state = std::get<PeerChange>(event.what).state;
  if (state == PeerState::kUp) perform(meeting_.on_up(from, endpoint_->host_of(event.peer)));
  if (state == PeerState::kDown) meeting_.on_down(from);
  if (state != PeerState::kLost && state != PeerState::kLeft) return;
  perform(meeting_.on_gone(from));
  // Who is lost after the table may have begun to train: what it sent is gone.
  if (meeting_.knows_all()) early_.push_back(std::move(event));
}

void Attendance::perform(const MeetingActions& actions) {
  // Before the others hear that this rank is connected: what they send from then on is of the training.
  if (meeting_.knows_all() && !std::exchange(knew_all_, true)) forget_the_meeting();
  for (const MeetingAction& action : actions) {
    if (const auto* reach = std::get_if<Reach>(&action)) {
      const Status met = endpoint_->meet(rank_name(reach->rank), reach->address);
      if (!met.ok()) options_.log.warning(met.message());
      continue;
    }
    // Where it can't be sent, the rank is gone, and the endpoint says so.
    const auto& tell = std::get<Tell>(action);
    (void)endpoint_->send(rank_name(tell.rank), tell.message, transport::Priority::kUrgent);
  }
}

// What keeps this rank from rank 0, where waiting will not mend it.
Status Attendance::check_master() {
  if (rank_ == 0 || meeting_.knows_all()) return {};
  const auto peer = endpoint_->statistics(rank_name(0));
  if (!peer.ok()) return peer.status();
  if (peer->trouble == PeerTrouble::kRefused) return {Code::kInvalid, peer->reason};
  if (peer->trouble != trouble_) {
    trouble_ = peer->trouble;
    troubled_since_ = clock_.now();
  }
  if (trouble_ == PeerTrouble::kNone || clock_.now() - troubled_since_ < kPatience) return {};
  if (trouble_ == PeerTrouble::kOtherPlan)
    return invalid("rank 0 at ", master_, " has another token than rank ", rank_,
                   ": give all ranks the same one, by RAVNEST_TOKEN or --token-file");
  return invalid("what answers at ", master_,
                 " is not rank 0 of this run: MASTER_PORT is taken by another program, or rank 0 has no token");
}

void Attendance::say_for_whom() {
  if (!reminder_.is_due(clock_.now())) return;
  if (const auto why = meeting_.withdrawal(); why && why != said_) {
    said_ = why;
    options_.log.error(*why, "; the run ends with that once all ranks are there to hear it");
  }
  std::vector<std::string> names;
  for (const int rank : meeting_.missing()) names.push_back(described(rank));
  if (names.empty()) return options_.log.info("rank ", rank_, " is there, and waits until all ranks are");
  const std::string strangers = door_->strangers();
  options_.log.info("waiting for ", join(names), strangers.empty() ? "" : text("; ", strangers));
}

std::string Attendance::described(int rank) const {
  const auto peer = endpoint_->statistics(rank_name(rank));
  const std::string reason = peer.ok() && peer->state != PeerState::kUp ? peer->reason : "";
  const std::string where = rank == 0 ? text("rank 0 at ", master_) : meeting_.shown(rank);
  return reason.empty() ? where : text(where, " (", reason, ")");
}

// Whoever asks a rank to end wants that now: those who are not there yet are not waited for.
Status Attendance::interrupted(const Status& why) {
  perform(meeting_.fail(text(meeting_.shown(rank_), " ended before all ranks had met: ", why.message())));
  (void)endpoint_->close(clock_.now() + kGoodbye);
  return why;
}

// This rank can not go on: of rank 0 all others hear why; another one tells rank 0, which tells the rest.
Status Attendance::give_up(const Status& why) {
  perform(meeting_.fail(why.message()));
  linger();
  (void)endpoint_->close(clock_.now() + kGoodbye);
  return why;
}

Status Attendance::end() {
  const wire::Failed failure = *meeting_.failure();
  linger();
  (void)endpoint_->close(clock_.now() + kGoodbye);
  const Status ended(failure.lost ? Code::kUnavailable : Code::kInvalid, failure.reason);
  return failure.stage == static_cast<std::uint32_t>(rank_) ? ended : ended.of_another();
}

void Attendance::linger() {
  const TimePoint until = clock_.now() + kLinger;
  while (!meeting_.untold().empty() && clock_.now() < until && poll_().ok()) {
    if (!listen(clock_.now() + kPollEvery).ok()) return;
  }
}

Met Attendance::result() {
  Met met{.rank = rank_, .world = options_.place.world, .endpoint = nullptr, .hosts = {}, .early = std::move(early_)};
  for (int rank = 0; rank < met.world; ++rank) met.hosts.push_back(meeting_.host(rank));
  met.endpoint = std::move(endpoint_);
  return met;
}

}  // namespace ravnest::strategy
