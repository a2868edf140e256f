#include "ravnest/average/averager.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <variant>

#include "ravnest/base/check.h"

namespace ravnest::average {
namespace {

using transport::Channel;
using transport::PeerState;

// Between two looks at the clock.
constexpr Duration kLongestWait = std::chrono::milliseconds(500);
constexpr std::uint64_t kKeptBytes = 64 << 20;

// A stage computes with what its root says of them.
Status check_participants(const std::vector<wire::Participant>& participants, int self, std::size_t clusters) {
  double weights = 0;
  bool participates = false;
  for (const wire::Participant& participant : participants) {
    if (participant.cluster >= clusters || !(participant.weight >= 0))
      return invalid("participant ", participant.cluster, " of ", participant.weight);
    weights += participant.weight;
    participates |= participant.cluster == static_cast<std::uint32_t>(self);
  }
  if (!participates) return invalid("cluster ", self, " has no participant");
  return weights > 0 && std::isfinite(weights) ? Status() : invalid("the participants weigh ", weights);
}

}  // namespace

Averager::Averager(AveragerOptions options, transport::Endpoint& endpoint)
    : options_(std::move(options)),
      endpoint_(endpoint),
      outbox_(endpoint, Channel::kAveraging),
      pool_(kKeptBytes),
      quiet_since_(clock_.now()) {
  if (is_root()) agreement_.emplace(options_.cluster, static_cast<int>(options_.roots.size()));
  thread_ = std::thread([this] { run(); });
}

Averager::~Averager() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  // The thread may wait for an event for up to half a second otherwise.
  endpoint_.interrupt(Channel::kAveraging);
  thread_.join();
}

// -- any thread

void Averager::request(std::function<void()> request) {
  {
    const MutexLock lock(mutex_);
    requests_.push_back(std::move(request));
  }
  endpoint_.interrupt(Channel::kAveraging);
}

void Averager::begin_with(StageValues values, CarriedState carried) {
  if (!options_.outer.nesterov && options_.codec == codec::Codec()) return;  // weights are averaged as they are
  request([this, values = std::move(values), carried = std::move(carried)]() mutable {
    OuterOptimizer::AveragingGroups held;
    residuals_.clear();
    for (std::size_t s = 0; s < values.size(); ++s) {
      residuals_.emplace_back(values[s].parameters.size());
      if (s < carried.residuals.size() && carried.residuals[s].size() == values[s].parameters.size())
        residuals_.back() = codec::ErrorFeedback(std::move(carried.residuals[s]));
      held.push_back(std::move(values[s].parameters));
    }
    outer_.emplace(options_.outer, std::move(held), std::move(carried.momentum));
  });
}

void Averager::give(std::uint64_t, StageValues values) {
  request([this, values = std::move(values)]() mutable {
    RAVNEST_CHECK(!given_, "a stage gives to a round before the last one holds");
    given_ = std::move(values);
    exchange();
  });
}

void Averager::enter(std::uint64_t round, std::uint64_t samples, Capture capture) {
  {
    const MutexLock lock(mutex_);
    // Whoever was due may be gone by now: those who were told of it see to it.
    capture.due = capture.due || own_.state().checkpoint_next;
    own_.enter(round, static_cast<double>(samples), capture);
  }
  request([this, samples, capture] { carry_out(agreement_->enter(static_cast<double>(samples), capture)); });
}

void Averager::finish(std::uint64_t samples, Capture capture) {
  {
    const MutexLock lock(mutex_);
    own_.finish();
  }
  request([this, weight = static_cast<double>(samples), capture] {
    owe(agreement_->entered() ? std::optional(OwnRounds::Debt{weight, capture}) : std::nullopt);
    carry_out(agreement_->finish(weight, capture));
  });
}

void Averager::resume() {
  {
    const MutexLock lock(mutex_);
    own_.resume();
  }
  request([this] {
    owe(std::nullopt);
    carry_out(agreement_->resume());
  });
}

void Averager::owe(std::optional<OwnRounds::Debt> debt) {
  const MutexLock lock(mutex_);
  own_.owe(debt);
}

RoundResult Averager::take() {
  const MutexLock lock(mutex_);
  RAVNEST_CHECK(result_, "the result of round ", own_.state().held, " is taken twice");
  return std::exchange(result_, std::nullopt).value();
}

RoundState Averager::rounds() const {
  const MutexLock lock(mutex_);
  return own_.state();
}

AveragerStatistics Averager::statistics() const {
  const MutexLock lock(mutex_);
  return statistics_;
}

// -- the thread

void Averager::run() {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (ending_) return;
    }
    run_requests();
    if (Status flushed = outbox_.flush(); !flushed.ok()) fail(flushed);
    publish();
    // What has come goes first; where nothing has, there is time to begin more.
    const bool may_begin = open_ && open_->exchange && open_->exchange->may_begin();
    auto event = endpoint_.receive(may_begin ? TimePoint() : clock_.now() + kLongestWait, Channel::kAveraging);
    if (event.ok()) {
      handle(std::move(*event));
    } else if (event.status().code() == Code::kCancelled) {
      return;
    } else if (may_begin && event.status().code() == Code::kDeadline) {
      begin_more();
    }
    lose_patience();
    look_for_the_unseen();
  }
}

void Averager::run_requests() {
  std::deque<std::function<void()>> requests;
  {
    const MutexLock lock(mutex_);
    requests.swap(requests_);
  }
  // The owner did something, so others may be about to answer: patience begins anew.
  if (!requests.empty()) quiet_since_ = clock_.now();
  for (const auto& request : requests) request();
}

void Averager::handle(transport::Event event) {
  if (const auto* change = std::get_if<transport::PeerChange>(&event.what)) return handle(event.peer, *change);
  auto& message = std::get<wire::Message>(event.what);
  if (auto* chunk = std::get_if<wire::RingChunk>(&message)) return handle(event.peer, std::move(*chunk));
  if (const auto* averaging = std::get_if<wire::Averaging>(&message)) return handle(event.peer, *averaging);
}

std::optional<int> Averager::cluster_of_root(const std::string& node) const {
  const auto found = std::ranges::find(options_.roots, node);
  if (found == options_.roots.end()) return std::nullopt;
  return static_cast<int>(found - options_.roots.begin());
}

void Averager::handle(const std::string& peer, const transport::PeerChange& change) {
  const bool up = change.state == PeerState::kUp;
  const bool gone = change.state == PeerState::kLost || change.state == PeerState::kLeft;
  if (!up && !gone) return;
  // A connection that is down for a moment is neither: the session brings it back, and nothing is lost by it.
  const bool was_gone = up ? gone_.erase(peer) > 0 : !gone_.insert(peer).second;
  const auto cluster = cluster_of_root(peer);
  if (agreement_ && cluster && *cluster != options_.cluster) {
    if (change.state == PeerState::kLost)
      options_.log.warning("cluster ", *cluster, " (", peer, ") is lost, the others go on: ", change.reason);
    if (change.state == PeerState::kLeft && !rounds().over)
      options_.log.info("cluster ", *cluster, " (", peer, ") has left");
    if (up && was_gone) options_.log.info("cluster ", *cluster, " (", peer, ") is back");
    carry_out(agreement_->on_peer(*cluster, up));
  }
  if (gone && is_exchanging()) miss_the_gone();
}

void Averager::handle(const std::string& peer, const wire::Averaging& message) {
  // A node of this cluster speaks as a stage or as its root; any other as the root of its cluster, to ours.
  const auto stage = std::ranges::find(options_.nodes, peer);
  if (stage == options_.nodes.end()) {
    if (const auto cluster = cluster_of_root(peer); agreement_ && cluster)
      carry_out(agreement_->on_message(*cluster, message));
  } else if (agreement_) {
    hear_stage(static_cast<int>(stage - options_.nodes.begin()), message);
  } else if (stage == options_.nodes.begin()) {
    hear_root(message);
  }
}

// What a stage says of an attempt that is over came too late.
void Averager::hear_stage(int stage, const wire::Averaging& message) {
  if (!open_) return;
  const std::uint64_t present = open_->attempt.attempt;
  if (const auto* complete = std::get_if<wire::AttemptComplete>(&message)) {
    if (complete->attempt == present) completed(stage);
  } else if (const auto* missing = std::get_if<wire::ClusterMissing>(&message)) {
    if (missing->attempt == present) carry_out(agreement_->missing(static_cast<int>(missing->cluster)));
  }
}

void Averager::hear_root(const wire::Averaging& message) {
  if (const auto* commit = std::get_if<wire::CommitAttempt>(&message)) return hold(commit->attempt);
  const auto* attempt = std::get_if<Attempt>(&message);
  if (attempt == nullptr) return;
  if (Status fits = check_participants(attempt->participants, options_.cluster, options_.roots.size()); !fits.ok())
    return fail(fits.with_context(text(options_.nodes.front(), " begins a round that can't be")));
  begin(*attempt);
}

// In the order in which the agreement says them, also where carrying one out makes it say more.
void Averager::carry_out(Actions actions) {
  // To begin an attempt may complete it at once (one participant), which makes the agreement say more.
  std::ranges::move(actions, std::back_inserter(actions_));
  if (std::exchange(carrying_out_, true)) return;
  for (; !actions_.empty(); actions_.pop_front())
    std::visit([this](auto& action) { carry_out(action); }, actions_.front());
  carrying_out_ = false;
}

void Averager::carry_out(Agreement::Send& send) {
  const std::string& to = options_.roots[static_cast<std::size_t>(send.to)];
  if (Status sent = outbox_.send(to, std::move(send.message)); !sent.ok()) fail(sent);
}

void Averager::carry_out(Agreement::Begin& begun) {
  tell_stages(begun.attempt);
  {
    const MutexLock lock(mutex_);
    own_.attempt_begins();
  }
  begin(std::move(begun.attempt));
}

void Averager::carry_out(Agreement::Holds& holds) {
  if (options_.on_checkpoint && open_ && open_->attempt.attempt == holds.attempt && open_->attempt.checkpoint > 0) {
    const bool can = [&] {
      const MutexLock lock(mutex_);
      return own_.capture().number > 0;
    }();
    options_.on_checkpoint(open_->attempt, can);
  }
  tell_stages(wire::CommitAttempt{.round = holds.round, .attempt = holds.attempt});
  hold(holds.attempt);
}

// The other clusters have gone on without this one.
void Averager::carry_out(Agreement::Out&) {
  if (agreement_->newcomer())
    options_.log.warning("the other clusters have averaged without this one; it takes their weights over");
  double weight = 0;
  Capture capture;
  std::optional<OwnRounds::Debt> owed;
  {
    const MutexLock lock(mutex_);
    if (!own_.is_out()) return;
    weight = own_.weight();
    capture = own_.capture();
    owed = own_.owed();
  }
  // What was given before it finished is not its last.
  if (owed) carry_out(agreement_->resume());
  carry_out(agreement_->enter(agreement_->newcomer() ? 0 : weight, capture));
  if (owed) carry_out(agreement_->finish(owed->samples, owed->capture));
}

void Averager::tell_root(wire::Averaging message) {
  if (Status sent = outbox_.send(options_.nodes.front(), std::move(message)); !sent.ok()) fail(sent);
}

void Averager::tell_stages(const wire::Averaging& message) {
  for (std::size_t stage = 1; stage < options_.nodes.size(); ++stage) {
    if (Status sent = outbox_.send(options_.nodes[stage], message); !sent.ok()) fail(sent);
  }
}

// Those who were never seen, or do not answer though they live, do not hold up the others for ever.
void Averager::lose_patience() {
  if (!agreement_) return;
  // Chunks, requests and changes in the agreement all show that something moves; only where nothing does, waiting
  // longer is of no use.
  if (std::exchange(changes_, agreement_->changes()) != agreement_->changes()) quiet_since_ = clock_.now();
  if (clock_.now() - quiet_since_ < options_.patience || !(agreement_->entered() || agreement_->finished())) return;
  quiet_since_ = clock_.now();
  carry_out(agreement_->begin_without_the_unseen());
}

// Who was never reached is never lost either.
void Averager::look_for_the_unseen() {
  if (!is_exchanging() || clock_.now() - open_->began < options_.patience) return;
  bool unseen = false;
  for (const auto& [cluster, node] : open_->exchange->neighbours()) {
    const auto peer = endpoint_.statistics(node);
    if (!peer.ok() || peer->state != PeerState::kWaiting || !gone_.insert(node).second) continue;
    options_.log.warning(node, " of cluster ", cluster, " was never reached: ", peer->reason);
    unseen = true;
  }
  if (unseen) miss_the_gone();
}

void Averager::fail(const Status& status) {
  {
    const MutexLock lock(mutex_);
    own_.fail(status);
  }
  endpoint_.interrupt();
}

void Averager::publish() {
  if (!agreement_) return;
  std::vector<std::string> waiting_for;
  for (const int cluster : agreement_->waiting_for())
    waiting_for.push_back(options_.roots[static_cast<std::size_t>(cluster)]);
  bool news = false;
  {
    const MutexLock lock(mutex_);
    own_.waits_for(std::move(waiting_for));
    statistics_.messages_ignored = agreement_->ignored();
    // A pass that is wanted is asked for until it has come: the driver may not have been able to begin it the last
    // time.
    news = agreement_->called() && own_.call();
    news |= own_.state().wants_pass;
  }
  if (news) endpoint_.interrupt();
}

}  // namespace ravnest::average
