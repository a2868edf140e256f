// How a node makes checkpoints together with other clusters, and goes on from one.
#include <algorithm>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/base/random_id.h"
#include "ravnest/train/node/node.h"
#include "ravnest/train/node/node_outcome.h"

namespace ravnest::train {
namespace {

// For clusters that were never seen, as before the first round (average/averager.h).
constexpr Duration kPatience = std::chrono::seconds(30);

Presence presence_of(const transport::Endpoint& endpoint, const std::string& node) {
  const auto peer = endpoint.statistics(node);
  if (!peer.ok()) return Presence::kGone;
  switch (peer->state) {
    case transport::PeerState::kWaiting: return Presence::kNeverSeen;
    case transport::PeerState::kLost:
    case transport::PeerState::kLeft: return Presence::kGone;
    case transport::PeerState::kUp:
    case transport::PeerState::kSlow:
    case transport::PeerState::kDown: break;
  }
  return Presence::kThere;
}

std::optional<int> place_in(const std::vector<std::string>& roots, const std::string& node) {
  const auto found = std::ranges::find(roots, node);
  return found == roots.end() ? std::nullopt : std::optional(static_cast<int>(found - roots.begin()));
}

}  // namespace

bool Node::makes_round_checkpoints() const { return checkpoints_ && has_rounds(); }

std::vector<std::string> Node::roots() const {
  std::vector<std::string> roots;
  for (const plan::PlannedCluster& cluster : plan_.clusters)
    roots.push_back(plan::node_name(cluster.stages.front().node));
  return roots;
}

void Node::make_round_checkpoints(NodeCheckpointsOptions& options, cluster::DriverOptions& driver) {
  options.roots = roots();
  if (!is_root()) return;
  options.post_to_cluster = [this, roots = roots()](std::uint32_t cluster, wire::Checkpointing said) {
    driver_->post(roots[cluster], std::move(said));
  };
  {
    const MutexLock lock(choice_mutex_);
    choice_.emplace(cluster_, roots(), random_id(12));
  }
  round_checkpoints_ = std::make_unique<RoundCheckpoints>(training_options_.checkpoints.every);
  driver.capture = [this](RoundCheckpoints::Entry entry, std::uint64_t passes) {
    const average::Capture capture =
        round_checkpoints_->at(entry, passes, checkpoints_->under_way(), SystemClock().now());
    if (entry == RoundCheckpoints::Entry::kAveragingPass) record_->remember(round_checkpoints_->entered().trained);
    return capture;
  };
}

// Of other clusters' roots, to this one, on the compute thread.
Status Node::on_other_cluster(const std::string& node, wire::Checkpointing checkpointing) {
  const auto from = place_in(roots(), node);
  if (!from) return {};
  if (const auto* wanted = std::get_if<wire::EndWanted>(&checkpointing)) {
    const MutexLock lock(stop_mutex_);
    if (!end_wanted_) end_wanted_ = printable(wanted->why);
    return {};
  }
  if (!checkpoints_)
    return invalid("cluster ", *from, " (", node,
                   ") makes checkpoints, and this node was given none to make: give all nodes the same checkpoint=");
  if (std::holds_alternative<wire::RunOffer>(checkpointing) || std::holds_alternative<wire::RunChosen>(checkpointing)) {
    const MutexLock lock(choice_mutex_);
    if (Status heard = choice_->on_message(*from, checkpointing); !heard.ok()) return heard;
    send_choice();
    return {};
  }
  return checkpoints_->on_cluster(static_cast<std::uint32_t>(*from), std::move(checkpointing));
}

void Node::on_gone_elsewhere(const std::string& node) {
  const auto cluster = place_in(roots(), node);
  if (!cluster || !makes_round_checkpoints()) return;
  checkpoints_->on_cluster_gone(static_cast<std::uint32_t>(*cluster));
  const MutexLock lock(choice_mutex_);
  choice_->gone(*cluster);
  send_choice();
}

void Node::send_choice() {
  for (RunChoice::Send& send : choice_->take_sends())
    driver_->post(roots()[static_cast<std::size_t>(send.first)], std::move(send.second));
  choice_changed_.notify_all();
}

// All stages of this cluster have said what they can read; on the compute thread.
void Node::offer_run(const std::vector<wire::Ready>& ready) {
  auto own = checkpoints_->offer(ready);
  const MutexLock lock(choice_mutex_);
  if (own.ok())
    choice_->offer(std::move(*own));
  else
    choice_->fail(own.status().message());
  send_choice();
}

// The clusters' common choice.
Result<wire::CheckpointRun> Node::choose_with_others(const Poll& poll) {
  const TimePoint begun = SystemClock().now();
  std::optional<Result<wire::CheckpointRun>> chosen;
  bool late = false;
  std::vector<int> without;
  const Status waited = until(
      [&](TimePoint deadline) -> Status {
        if (const auto ended = outcome_->get(); ended && !ended->ok()) return ended->status();
        const MutexLock lock(choice_mutex_);
        std::vector<Presence> presence;
        for (const std::string& root : roots()) presence.push_back(presence_of(*endpoint_, root));
        choice_->look(presence, SystemClock().now() - begun < kPatience);
        send_choice();
        choice_changed_.wait_until(choice_mutex_, deadline,
                                   [&]() RAVNEST_REQUIRES(choice_mutex_) { return choice_->chosen().has_value(); });
        chosen = choice_->chosen();
        late = choice_->came_late();
        without = choice_->left_out();
        return chosen ? Status() : ravnest::deadline("the clusters have not chosen");
      },
      poll);
  if (!waited.ok()) return waited;
  if (!chosen->ok()) return chosen->status();
  if (Status fits = checkpoints_->fits(**chosen); !fits.ok()) return fits;
  if (late)
    warn(text("the other clusters train run ", (*chosen)->run, " already; this one takes part from its next round on"));
  for (const int cluster : without) {
    if (cluster != cluster_)
      warn(text("cluster ", cluster, " (", roots()[static_cast<std::size_t>(cluster)],
                ") was not there when this run's beginning was chosen"));
  }
  (*chosen)->joins = late;
  return *chosen;
}

std::vector<std::string> Node::clusters_waited_for() const {
  const MutexLock lock(choice_mutex_);
  if (!choice_ || choice_->chosen()) return {};
  std::vector<std::string> names;
  for (const int cluster : choice_->waiting_for()) names.push_back(roots()[static_cast<std::size_t>(cluster)]);
  return names;
}

// A round holds of which its participants make a checkpoint; on the averager's thread, before stages take snapshots.
void Node::on_round_checkpoint(const wire::Attempt& attempt, bool can) {
  std::vector<std::uint32_t> participants;
  for (const wire::Participant& each : attempt.participants) participants.push_back(each.cluster);
  checkpoints_->expect(std::move(participants));
  const checkpoint::DataPosition position = round_checkpoints_->entered();
  if (attempt.last) {  // what is validated after it comes first
    const MutexLock lock(choice_mutex_);
    last_round_ = attempt.checkpoint;
    return;
  }
  round_checkpoints_->made(attempt.checkpoint, position, SystemClock().now());
  record_->keep_as(attempt.checkpoint);
  if (can)
    checkpoints_->announce_with_others(attempt.checkpoint, position);
  else
    checkpoints_->announce_failure(attempt.checkpoint, text(name(), ": its cluster was in the middle of training"));
}

// Training is over: when it is so everywhere, all keep what they have come to. Returns when that is written.
Status Node::finish_with_others(const Poll& poll) {
  if (Status finished = finish_rounds(poll); !finished.ok()) return finished;
  const auto written = [&](TimePoint deadline) -> Status {
    if (checkpoints_->wait_for_last(deadline)) return {};
    if (const auto ended = outcome_->get(); ended && !ended->ok()) return ended->status();
    return ravnest::deadline("a checkpoint is being written");
  };
  if (Status waited = until(written, poll); !waited.ok()) return waited;
  const std::uint64_t checkpoint = [&] {
    const MutexLock lock(choice_mutex_);
    return std::exchange(last_round_, 0);
  }();
  kept_at_the_end_ = checkpoint > 0 ? checkpoint : last_checkpoint();
  if (checkpoint == 0) return {};
  round_checkpoints_->made(checkpoint, position_, SystemClock().now());
  checkpoints_->announce_with_others(checkpoint, position_);
  if (Status expected = record_->expect_checkpoint(checkpoint); !expected.ok()) return expected;
  const stage::Offer snapshot{
      .kind = wire::PassKind::kSnapshot, .batch = batches_++, .update = false, .checkpoint = checkpoint};
  const auto offered = [&](TimePoint deadline) { return driver_->offer(snapshot, {}, deadline); };
  if (Status taken = until(offered, poll); !taken.ok()) return taken;
  return until(written, poll);
}

// In object storage the last checkpoint is there when those of all clusters have said that theirs is: so while the call
// is under way, in which they can.
Status Node::finish_uploads(const Poll& poll) {
  const TimePoint begun = SystemClock().now();
  bool said = false;
  return until(
      [&](TimePoint deadline) -> Status {
        if (checkpoints_->is_up_by(deadline)) return {};
        if (const auto ended = outcome_->get(); ended && !ended->ok()) return ended->status();
        if (deadline - begun > kSayOfUploadsAfter && !std::exchange(said, true)) checkpoints_->say_that_it_waits();
        return ravnest::deadline("the last checkpoint is not in object storage");
      },
      poll);
}

}  // namespace ravnest::train
