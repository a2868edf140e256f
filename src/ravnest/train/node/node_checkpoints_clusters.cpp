// A node's part in checkpoints of several clusters.
#include <algorithm>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"
#include "ravnest/checkpoint/assemble.h"
#include "ravnest/checkpoint/settings.h"
#include "ravnest/train/node/node_checkpoints.h"

namespace ravnest::train {

using checkpoint::DataPosition;
using checkpoint::Manifest;

namespace {

bool contains(const std::vector<std::uint32_t>& clusters, std::uint32_t cluster) {
  return std::ranges::find(clusters, cluster) != clusters.end();
}

}  // namespace

// -- before anything is trained

// Data that were shared out among others are gone through from where all of them were together. The batches of an epoch
// are then as many more, or fewer.
DataPosition NodeCheckpoints::position_in(const Manifest& manifest) const {
  DataPosition position = checkpoint::position_of(manifest, checkpoint::copy_for(manifest, options_.cluster));
  const std::uint64_t before_us = manifest.strategy == "pipeline" ? manifest.world : 1;  // ranks count for all of them
  if (before_us == options_.clusters || !checkpoint::shares_data_out(manifest.settings) ||
      !checkpoint::shares_data_out(settings_))
    return position;
  const auto ours = [&](std::uint64_t batches) { return batches * before_us / options_.clusters; };
  const std::uint64_t before = position.trained - std::min(position.trained, position.index);
  position.index = ours(position.index);
  position.trained = ours(before) + position.index;
  position.samples = ours(position.samples);
  return position;
}

// -- while it trains

std::string NodeCheckpoints::name_of(std::uint32_t cluster) const {
  return text("cluster ", cluster, " (", options_.roots[cluster], ")");
}

void NodeCheckpoints::expect(std::vector<std::uint32_t> participants) {
  const MutexLock lock(mutex_);
  participants_ = std::move(participants);
  gone_.clear();
}

void NodeCheckpoints::announce_with_others(std::uint64_t checkpoint, const DataPosition& position) {
  {
    const MutexLock lock(mutex_);
    under_way_ = UnderWay{checkpoint, position, {}, {}, participants_, gone_};
    // Of what others have of one before, nobody waits any more.
    std::erase_if(shares_, [&](const auto& of) { return of.first < checkpoint; });
  }
  writer_.add([this, checkpoint] { join_shares(checkpoint); });
}

void NodeCheckpoints::announce_failure(std::uint64_t checkpoint, const std::string& failure) {
  announce_with_others(checkpoint, {});
  hand_in(checkpoint, unavailable(failure));
}

// What the own cluster has goes to whoever gathers all: the first of the participants.
void NodeCheckpoints::hand_in(std::uint64_t checkpoint, Share share) {
  std::uint32_t gathers = options_.cluster;
  {
    const MutexLock lock(mutex_);
    if (!under_way_ || under_way_->checkpoint != checkpoint) return;  // given up
    if (!under_way_->participants.empty()) gathers = under_way_->participants.front();
  }
  if (gathers == options_.cluster) return take_share(checkpoint, gathers, std::move(share));
  wire::ClusterParts parts{checkpoint, {}, {}};
  if (share.ok())
    parts.manifest = encode(*share);
  else
    parts.failure = share.status().message();
  options_.post_to_cluster(gathers, std::move(parts));
}

void NodeCheckpoints::take_share(std::uint64_t checkpoint, std::uint32_t cluster, Share share) {
  {
    const MutexLock lock(mutex_);
    shares_[checkpoint].insert_or_assign(cluster, std::move(share));
    constexpr std::size_t kMost = 4;  // that a cluster which is ahead can be waited for with
    while (shares_.size() > kMost) shares_.erase(shares_.begin());
  }
  join_shares(checkpoint);
}

// Where all have said what they have of it.
void NodeCheckpoints::join_shares(std::uint64_t checkpoint) {
  std::optional<Manifest> joined;
  std::optional<std::string> failure;
  std::vector<std::uint32_t> participants;
  {
    const MutexLock lock(mutex_);
    if (!under_way_ || under_way_->checkpoint != checkpoint) return;
    participants = under_way_->participants;
    if (participants.empty() || participants.front() != options_.cluster) {
      // Whoever gathers is gone, or has said why there will be none.
      if (!participants.empty() && under_way_->gone.contains(participants.front()))
        failure = name_of(participants.front()) + " was lost";
    } else {
      auto& shares = shares_[checkpoint];
      for (const std::uint32_t cluster : participants) {
        const auto found = shares.find(cluster);
        if (found == shares.end() && under_way_->gone.contains(cluster)) failure = name_of(cluster) + " was lost";
        if (found != shares.end() && !found->second.ok()) failure = found->second.status().message();
        if (found != shares.end() && found->second.ok() && found->second->run != run_)
          failure = text(name_of(cluster), " trains run ", printable(found->second->run), ", and this is run ", run_);
      }
      if (!failure && shares.size() < participants.size()) return;
      for (const std::uint32_t cluster : participants) {
        if (failure) break;
        const Manifest& share = *shares.at(cluster);
        if (!joined) {
          joined = share;
        } else {
          joined->parts.insert(joined->parts.end(), share.parts.begin(), share.parts.end());
        }
        joined->positions.insert_or_assign(cluster, share.position);
      }
      shares_.erase(checkpoint);
    }
  }
  if (joined) return finish(*joined);
  if (!failure) return;
  give_up(checkpoint, *failure);
  if (participants.front() == options_.cluster) tell_clusters({checkpoint, {}}, participants);
}

void NodeCheckpoints::tell_clusters(const wire::CheckpointOver& over, const std::vector<std::uint32_t>& clusters) {
  for (const std::uint32_t cluster : clusters) {
    if (cluster != options_.cluster) options_.post_to_cluster(cluster, over);
  }
}

Status NodeCheckpoints::on_cluster(std::uint32_t from, wire::Checkpointing checkpointing) {
  if (const auto* parts = std::get_if<wire::ClusterParts>(&checkpointing)) {
    Share share = unavailable(printable(parts->failure.value_or("")));
    if (!parts->failure) {
      share = checkpoint::decode_manifest(parts->manifest, text("what ", name_of(from), " has of a checkpoint"));
      if (!share.ok()) share = unavailable(share.status().message());
    }
    writer_.add([this, from, checkpoint = parts->checkpoint, share = std::move(share)] {
      take_share(checkpoint, from, share);
    });
    return {};
  }
  if (auto* over = std::get_if<wire::CheckpointOver>(&checkpointing)) {
    writer_.add([this, from, over = std::move(*over)] {
      if (!over.manifest) return give_up(over.checkpoint, text(name_of(from), " has given it up, and says why there"));
      relay(over);
      on_over(over);
      if (uploads_) uploads_->complete_at(from, over.checkpoint);  // first: one of both is under way all the time
      const MutexLock lock(mutex_);
      is_over(over.checkpoint);
    });
    return {};
  }
  if (auto* uploaded = std::get_if<wire::PartUploaded>(&checkpointing); uploaded != nullptr && uploads_) {
    // Behind what was said before of the same checkpoint.
    writer_.add([this, from, uploaded = std::move(*uploaded)] { uploads_->on_cluster(from, uploaded); });
    return {};
  }
  return invalid(name_of(from), " speaks of a checkpoint as only a node of this cluster does");
}

void NodeCheckpoints::on_cluster_gone(std::uint32_t cluster) {
  std::uint64_t checkpoint = 0;
  {
    const MutexLock lock(mutex_);
    if (contains(participants_, cluster)) gone_.insert(cluster);
    if (under_way_ && contains(under_way_->participants, cluster)) {
      under_way_->gone.insert(cluster);
      checkpoint = under_way_->checkpoint;
    }
  }
  writer_.add([this, checkpoint, cluster] {
    if (checkpoint > 0) join_shares(checkpoint);
    if (uploads_) uploads_->on_cluster_gone(cluster);
  });
}

}  // namespace ravnest::train
