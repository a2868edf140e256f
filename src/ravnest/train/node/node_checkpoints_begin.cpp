// What a node's checkpoints are asked before anything is trained: which ones there are, and which one is gone on from.
#include <algorithm>
#include <utility>

#include "ravnest/base/random_id.h"
#include "ravnest/base/text.h"
#include "ravnest/checkpoint/assemble.h"
#include "ravnest/checkpoint/part_file.h"
#include "ravnest/checkpoint/settings.h"
#include "ravnest/train/node/node_checkpoints.h"
#include "ravnest/train/node/run_choice.h"
#include "ravnest/worker/part_records.h"

namespace ravnest::train {

using checkpoint::Checkpoint;
using checkpoint::Manifest;
using wire::ReadableCheckpoint;

Status NodeCheckpoints::open_stores() {
  const CheckpointOptions& wanted = options_.checkpoints;
  auto own = checkpoint::Store::open(
      wanted.folder,
      {.holder = own_name(), .environment = wanted.environment, .has_others_that_lead = options_.clusters > 1});
  if (!own.ok()) return own.status();
  std::unique_ptr<checkpoint::Store> another;
  if (resume_.place != wanted.folder) {
    auto opened = checkpoint::Store::open(resume_.place, {.holder = own_name(), .environment = wanted.environment});
    if (!opened.ok()) return opened.status();
    another = std::move(*opened);
  }
  {
    const MutexLock lock(mutex_);
    store_ = std::move(*own);
    another_ = std::move(another);
    if (stopped_) stop_stores();
  }
  source_ = another_ ? another_.get() : store_.get();
  source_name_ = source_->name();
  return store_->check_access();
}

Result<std::vector<Checkpoint>> NodeCheckpoints::candidates() {
  if (resume_.which == "newest" || resume_.which == "best") {
    auto listing = source_->list();
    if (!listing.ok()) return listing.status();
    for (const checkpoint::Unreadable& each : listing->unreadable) options_.warn(each.why.message());
    // Who names the place means that something is there.
    if (object_store::is_s3_url(options_.checkpoints.resume) && listing->complete.empty())
      return checkpoint::find_listed(*listing, source_name_, resume_.which)->status();
    if (resume_.which == "best") {
      std::ranges::stable_sort(listing->complete, std::ranges::greater(),
                               [](const Checkpoint& each) { return each.manifest.accuracy; });
    }
    return std::move(listing->complete);
  }
  auto found = source_->find(resume_.which);
  if (!found.ok()) return found.status();
  return std::vector<Checkpoint>{std::move(*found)};
}

bool NodeCheckpoints::has_own_part(const Manifest& manifest) const {
  return manifest.plan == options_.plan && (manifest.strategy == "pipeline") == is_pipeline() &&
         checkpoint::has_part(manifest, own_part());
}

checkpoint::VerifyOptions NodeCheckpoints::own_parts(const Manifest& manifest) const {
  if (!has_own_part(manifest)) return {.parts = checkpoint::parts_of_copy(manifest, options_.cluster), .progress = {}};
  return {.parts = {own_part()}, .progress = {}};
}

const NodeCheckpoints::Readable* NodeCheckpoints::known(const std::string& run, std::uint64_t updates) const {
  const auto found = std::ranges::find_if(readable_, [&](const Readable& each) {
    return each.checkpoint.manifest.run == run && each.checkpoint.manifest.updates == updates;
  });
  return found == readable_.end() ? nullptr : &*found;
}

Result<std::vector<ReadableCheckpoint>> NodeCheckpoints::readable() {
  readable_.clear();
  if (Status opened = open_stores(); !opened.ok()) return opened;
  if (options_.checkpoints.resume.empty()) return std::vector<ReadableCheckpoint>();
  auto candidates = this->candidates();
  if (!candidates.ok()) return candidates.status();
  std::vector<ReadableCheckpoint> said;
  for (Checkpoint& each : *candidates) {
    // Of a folder with hundreds, nobody reads all files to go on from one.
    constexpr std::size_t kVerified = 2;
    checkpoint::VerifyOptions how = own_parts(each.manifest);
    how.digests = readable_.size() < kVerified;
    how.progress = [this](std::uint64_t, std::uint64_t) { return !is_stopped(); };
    const Status whole = source_->check(each, how);
    if (whole.code() == Code::kCancelled) return whole;
    if (!whole.ok()) {
      options_.warn(text("the checkpoint of update ", each.manifest.updates, " is passed over: ", whole.message()));
      continue;
    }
    said.push_back({each.manifest.run, each.manifest.updates, each.manifest.accuracy});
    readable_.push_back({std::move(each), how.digests});
  }
  return said;
}

Result<wire::RunOffer> NodeCheckpoints::offer(const std::vector<wire::Ready>& ready) const {
  std::vector<ReadableBy> all;
  for (std::size_t stage = 0; stage < ready.size(); ++stage)
    all.push_back({options_.nodes[stage], ready[stage].checkpoints});
  auto common = readable_by_all(all);
  if (!common.ok()) return common.status();
  const std::string& wanted = resume_.which;
  const std::string& folder = source_name_;
  if (common->empty() && !wanted.empty()) {
    if (wanted != "newest")
      return not_found("there is no checkpoint in ", folder, " that ", wanted,
                       " could mean: begin anew without resume");
    options_.warn(text("there is no checkpoint in ", folder, " to go on from: the run begins anew"));
  }
  if (const auto chosen = preferred(*common, wanted); chosen && wanted == "best" && !chosen->accuracy)
    return not_found("no checkpoint in ", folder,
                     " knows how good its weights are: go on from the newest, or validate while training");
  return wire::RunOffer{wanted, std::move(*common)};
}

Status NodeCheckpoints::fits(const wire::CheckpointRun& chosen) const {
  const Readable* own = known(chosen.run, chosen.updates);
  if (own == nullptr) return {};
  Manifest manifest = own->checkpoint.manifest;
  manifest.position = position_in(manifest);
  return checkpoint::changed_settings(manifest, settings_).status();
}

Result<wire::CheckpointRun> NodeCheckpoints::choose(const std::vector<wire::Ready>& ready) const {
  const auto own = offer(ready);
  if (!own.ok()) return own.status();
  const auto preferred_one = preferred(own->checkpoints, own->wanted);
  if (!preferred_one) return wire::CheckpointRun{random_id(12), 0};
  const wire::CheckpointRun chosen{preferred_one->run, preferred_one->updates};
  if (Status status = fits(chosen); !status.ok()) return status;
  return chosen;
}

Result<std::optional<checkpoint::Part>> NodeCheckpoints::begin(const wire::CheckpointRun& run,
                                                               const std::set<std::string>& weights,
                                                               const std::set<std::string>& buffers) {
  run_ = run.run;
  if (Status begun = store_->begin_run(run_); !begun.ok()) return begun;
  if (store_->uploads()) {
    NodeUploadsOptions uploads;
    uploads.retention = options_.checkpoints.retention;
    uploads.nodes = options_.nodes;
    uploads.tell_root = [this](wire::PartUploaded said) { tell(0, std::move(said)); };
    uploads.tell_cluster = options_.post_to_cluster;
    uploads.name_of = [this](std::uint32_t cluster) { return name_of(cluster); };
    uploads.warn = options_.warn;
    uploads_ = std::make_unique<NodeUploads>(*store_, std::move(uploads));
  }
  if (run.updates == 0) return std::optional<checkpoint::Part>();
  const Readable* const found = known(run.run, run.updates);
  if (found == nullptr)
    return internal("the root goes on from update ", run.updates, ", which this node did not speak of");
  auto here = fetched(*found);
  if (!here.ok()) return here.status();
  const Checkpoint& from = *here;
  auto part = read(from, weights, buffers);
  if (!part.ok()) return part.status();
  resumed_ = from.manifest;
  resumed_->position = position_in(from.manifest);
  joins_ = run.joins;
  const MutexLock lock(mutex_);
  last_ = run.updates;
  return std::optional(std::move(*part));
}

// On this machine, with the parts that it needs.
Result<Checkpoint> NodeCheckpoints::fetched(const Readable& readable) {
  const Checkpoint& from = readable.checkpoint;
  const checkpoint::VerifyOptions own = own_parts(from.manifest);
  if (object_store::is_s3_url(from.folder.string()))
    options_.warn(text("takes ", has_own_part(from.manifest) ? "its part" : "all parts",
                       " of the checkpoint of update ", from.manifest.updates, " from ", source_name_,
                       ", unless it is here"));
  auto here = source_->fetch(from, own.parts);
  const Status whole = here.ok() && !readable.verified ? checkpoint::verified(*here, own) : Status();
  if (!whole.ok()) return whole.with_context("it cannot be gone on from, name another one");
  return here;
}

Result<checkpoint::Part> NodeCheckpoints::read(const Checkpoint& from, const std::set<std::string>& weights,
                                               const std::set<std::string>& buffers) const {
  if (has_own_part(from.manifest)) return checkpoint::read_part_of(from, own_part());
  const auto whole = checkpoint::read_whole(from, options_.cluster);
  if (!whole.ok()) return whole.status();
  auto part = checkpoint::select(*whole, weights, buffers);
  if (!part.ok()) return part.status();
  if (Status taken = worker::take_records(*whole, *part); !taken.ok()) return taken;
  return part;
}

std::optional<std::string> NodeCheckpoints::what_changed(const std::vector<std::string>& options_kept) const {
  std::vector<std::string> said;
  const auto changes = checkpoint::changed_settings(*resumed_, settings_);
  if (changes.ok() && !changes->empty()) said.push_back(text("since the checkpoint ", join(*changes), " changed"));
  if (!options_kept.empty()) said.push_back(text("the optimizer keeps the checkpoint's ", join(options_kept)));
  if (said.empty()) return std::nullopt;
  return join(said, "; ");
}

Status NodeCheckpoints::remove_later() {
  if (!resumed_ || joins_) return {};  // what others have made meanwhile stays
  const Manifest& from = *resumed_;
  const auto listing = store_->list();
  std::vector<std::string> later;
  for (const Checkpoint& each : listing.ok() ? listing->complete : std::vector<Checkpoint>()) {
    if (each.manifest.run == from.run && each.manifest.updates > from.updates)
      later.push_back(std::to_string(each.manifest.updates));
  }
  if (!later.empty() && is_root())
    options_.warn(text("removes what came after the checkpoint of update ", from.updates, ": ",
                       later.size() == 1 ? "that of update " : "those of updates ", join(later)));
  return store_->remove_newer(from.updates, is_root());
}

}  // namespace ravnest::train
