#include "ravnest/average/averager.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <variant>

namespace ravnest::average {
namespace {

using transport::Channel;
using transport::PeerState;
using wire::AveragingKind;

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
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  endpoint_.interrupt(Channel::kAveraging);
  thread_.join();
}

// -- any thread

void Averager::request(std::function<void()> request) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
  }
  endpoint_.interrupt(Channel::kAveraging);
}

void Averager::begin_with(StageValues values) {
  if (!options_.outer.nesterov && options_.codec == codec::Codec()) return;  // weights are averaged as they are
  request([this, values = std::move(values)]() mutable {
    OuterOptimizer::AveragingGroups held;
    for (GroupValues& averaging_group : values) {
      residuals_.emplace_back(averaging_group.parameters.size());
      held.push_back(std::move(averaging_group.parameters));
    }
    outer_.emplace(options_.outer, std::move(held));
  });
}

void Averager::give(std::uint64_t, StageValues values) {
  request([this, values = std::move(values)]() mutable {
    given_ = std::move(values);
    exchange();
  });
}

void Averager::enter(std::uint64_t round, std::uint64_t samples) {
  {
    const std::lock_guard lock(mutex_);
    called_ = wants_pass_ = false;
    entered_ = round;
  }
  request([this, samples] {
    weight_ = static_cast<double>(samples);
    carry_out(agreement_->enter(weight_));
  });
}

void Averager::finish(std::uint64_t samples) {
  {
    const std::lock_guard lock(mutex_);
    over_ = false;
  }
  request([this, samples] {
    owes_ = agreement_->entered();
    last_weight_ = static_cast<double>(samples);
    carry_out(agreement_->finish(last_weight_));
  });
}

void Averager::resume() {
  request([this] {
    owes_ = false;
    carry_out(agreement_->resume());
  });
}

RoundResult Averager::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(result_, std::nullopt).value();
}

std::uint64_t Averager::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

Status Averager::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool Averager::called() const {
  const std::lock_guard lock(mutex_);
  return called_;
}

bool Averager::wants_pass() const {
  const std::lock_guard lock(mutex_);
  return wants_pass_;
}

bool Averager::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

std::vector<std::string> Averager::waiting_for() const {
  const std::lock_guard lock(mutex_);
  return waiting_for_;
}

AveragerStatistics Averager::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

// -- the thread

void Averager::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
    }
    run_requests();
    if (Status flushed = outbox_.flush(); !flushed.ok()) fail(flushed);
    publish();
    // What has come goes first; where nothing has, there is time to begin more.
    const bool may_begin = exchange_ && exchange_->may_begin();
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
    const std::lock_guard lock(mutex_);
    requests.swap(requests_);
  }
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
  const bool was_gone = up ? gone_.erase(peer) > 0 : !gone_.insert(peer).second;
  const auto cluster = cluster_of_root(peer);
  if (agreement_ && cluster && *cluster != options_.cluster) {
    if (change.state == PeerState::kLost)
      options_.log.warning("cluster ", *cluster, " (", peer, ") is lost, the others go on: ", change.reason);
    if (change.state == PeerState::kLeft && !over()) options_.log.info("cluster ", *cluster, " (", peer, ") has left");
    if (up && was_gone) options_.log.info("cluster ", *cluster, " (", peer, ") is back");
    carry_out(agreement_->on_peer(*cluster, up));
  }
  if (gone && exchange_ && !exchange_->complete()) miss_the_gone();
}

void Averager::handle(const std::string& peer, const wire::Averaging& message) {
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

void Averager::hear_stage(int stage, const wire::Averaging& message) {
  if (!attempt_ || message.attempt != attempt_->attempt) return;
  if (message.kind == AveragingKind::kComplete) {
    completed(stage, message.attempt);
  } else if (message.kind == AveragingKind::kMissing && !message.missing.empty()) {
    carry_out(agreement_->missing(static_cast<int>(message.missing.front())));
  }
}

void Averager::hear_root(const wire::Averaging& message) {
  if (message.kind == AveragingKind::kCommit) return commit(message.last);
  if (message.kind != AveragingKind::kGo) return;
  Attempt attempt{message.round, message.attempt, message.participants, message.last, message.whole};
  if (Status fits = check_participants(attempt.participants, options_.cluster, options_.roots.size()); !fits.ok())
    return fail(fits.with_context(text(options_.nodes.front(), " begins a round that can't be")));
  begin(std::move(attempt));
}

// In the order in which the agreement says them, also where carrying one out makes it say more.
void Averager::carry_out(Actions actions) {
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
  const Attempt& attempt = begun.attempt;
  tell_stages({.kind = AveragingKind::kGo,
               .round = attempt.round,
               .attempt = attempt.attempt,
               .participants = attempt.participants,
               .last = attempt.last,
               .whole = attempt.whole});
  complete_.clear();
  {
    const std::lock_guard lock(mutex_);
    wants_pass_ = entered_ == held_;
  }
  begin(std::move(begun.attempt));
}

void Averager::carry_out(Agreement::Holds& holds) {
  tell_stages({.kind = AveragingKind::kCommit, .round = holds.round, .last = holds.last});
  commit(holds.last);
}

// The other clusters have gone on without this one.
void Averager::carry_out(Agreement::Out&) {
  if (agreement_->newcomer())
    options_.log.warning("the other clusters have averaged without this one; it takes their weights over");
  {
    const std::lock_guard lock(mutex_);
    called_ = entered_ == held_;
    if (called_) return;
  }
  // What was given before it finished is not its last.
  if (owes_) carry_out(agreement_->resume());
  carry_out(agreement_->enter(agreement_->newcomer() ? 0 : weight_));
  if (owes_) carry_out(agreement_->finish(last_weight_));
}

void Averager::tell_stages(const wire::Averaging& message) {
  for (std::size_t stage = 1; stage < options_.nodes.size(); ++stage) {
    if (Status sent = outbox_.send(options_.nodes[stage], message); !sent.ok()) fail(sent);
  }
}

// Those who were never seen, or do not answer though they live, do not hold up the others for ever.
void Averager::lose_patience() {
  if (!agreement_) return;
  if (std::exchange(changes_, agreement_->changes()) != agreement_->changes()) quiet_since_ = clock_.now();
  if (clock_.now() - quiet_since_ < options_.patience || !(agreement_->entered() || agreement_->finished())) return;
  quiet_since_ = clock_.now();
  carry_out(agreement_->begin_without_the_unseen());
}

// Who was never reached is never lost either.
void Averager::look_for_the_unseen() {
  if (!exchange_ || exchange_->complete() || clock_.now() - began_ < options_.patience) return;
  bool unseen = false;
  for (const auto& [cluster, node] : exchange_->neighbours()) {
    const auto peer = endpoint_.statistics(node);
    if (!peer.ok() || peer->state != PeerState::kWaiting || !gone_.insert(node).second) continue;
    options_.log.warning(node, " of cluster ", cluster, " was never reached: ", peer->reason);
    unseen = true;
  }
  if (unseen) miss_the_gone();
}

void Averager::fail(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
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
    const std::lock_guard lock(mutex_);
    waiting_for_ = std::move(waiting_for);
    statistics_.messages_ignored = agreement_->ignored();
    news = agreement_->called() && !called_ && entered_ == held_;
    called_ |= news;
    news |= wants_pass_;
  }
  if (news) endpoint_.interrupt();
}

}  // namespace ravnest::average
