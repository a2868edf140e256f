#include "ravnest/train/node/node_checkpoints.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/base/random_id.h"
#include "ravnest/base/text.h"
#include "ravnest/checkpoint/assemble.h"
#include "ravnest/checkpoint/part_file.h"
#include "ravnest/checkpoint/settings.h"
#include "ravnest/train/node/run_choice.h"
#include "ravnest/worker/part_records.h"

namespace ravnest::train {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Manifest;
using wire::ReadableCheckpoint;

// "2026-11-19T12:00:00Z"
std::string now_in_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::string written(32, '\0');
  written.resize(std::strftime(written.data(), written.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return written;
}

}  // namespace

std::string part_name(std::uint32_t cluster, std::uint32_t clusters, int stage) {
  const std::string own = text("stage_", stage);
  return clusters == 1 ? own : text("cluster_", cluster, "_", own);
}

NodeCheckpoints::NodeCheckpoints(NodeCheckpointsOptions options)
    : options_(std::move(options)),
      resume_(checkpoint::place_and_which(options_.checkpoints.folder, options_.checkpoints.resume)),
      writer_([this](const std::string& what) { options_.warn(text("a checkpoint could not be written: ", what)); }) {}

// What waits is not begun any more: it would be of a run that has failed.
NodeCheckpoints::~NodeCheckpoints() { stop(); }

// -- before anything is trained

Status NodeCheckpoints::open_stores() {
  const CheckpointOptions& wanted = options_.checkpoints;
  auto own = checkpoint::Store::open(wanted.folder, {own_name(), wanted.environment});
  if (!own.ok()) return own.status();
  std::unique_ptr<checkpoint::Store> another;
  if (resume_.place != wanted.folder) {
    auto opened = checkpoint::Store::open(resume_.place, {own_name(), wanted.environment});
    if (!opened.ok()) return opened.status();
    another = std::move(*opened);
  }
  {
    const MutexLock lock(mutex_);
    store_ = std::move(*own);
    another_ = std::move(another);
    if (stopped_) stop_stores();
  }
  if (store_->uploads() && options_.clusters > 1)
    return unsupported("checkpoints of several clusters go into folders so far, and ", store_->name(),
                       " is object storage; bring them there by `ravnest cp -r`");
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

std::string NodeCheckpoints::own_part() const {
  return is_pipeline() ? part_name(options_.cluster, options_.clusters, options_.stage) : "model";
}

bool NodeCheckpoints::has_own_part(const Manifest& manifest) const {
  return manifest.plan == options_.plan && (manifest.strategy == "pipeline") == is_pipeline() &&
         checkpoint::has_part(manifest, own_part());
}

void NodeCheckpoints::tell(int stage, wire::Checkpointing said) {
  if (options_.post)
    options_.post(stage, std::move(said));
  else
    static_cast<void>(on_message(0, std::move(said)));
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

// -- while it trains

bool NodeCheckpoints::under_way() const {
  if (is_behind()) return true;
  const MutexLock lock(mutex_);
  return under_way_.has_value();
}

bool NodeCheckpoints::wait_for_last(TimePoint deadline) const {
  const MutexLock lock(mutex_);
  return changed_.wait_until(mutex_, deadline, [&]() RAVNEST_REQUIRES(mutex_) { return !under_way_.has_value(); });
}

void NodeCheckpoints::announce(std::uint64_t checkpoint, const checkpoint::DataPosition& position) {
  const MutexLock lock(mutex_);
  under_way_ = UnderWay{checkpoint, position, {}, {}, {}};
}

void NodeCheckpoints::take(worker::Snapshot snapshot) {
  std::optional<std::uint64_t> before;
  {
    const MutexLock lock(mutex_);
    before = writing_;
    if (!before) writing_ = snapshot.checkpoint;
  }
  if (!before)
    return writer_.add([this, taken = std::make_shared<worker::Snapshot>(std::move(snapshot))] { write(*taken); });
  tell(0, wire::PartWritten{snapshot.checkpoint, {}, text("it still writes that of update ", *before)});
}

Result<checkpoint::PartEntry> NodeCheckpoints::write_part(const worker::Snapshot& snapshot) {
  checkpoint::Part part = snapshot.part;
  part.name = own_part();
  part.copy = options_.cluster;
  part.holder = own_name();
  part.run = run_;
  part.plan = options_.plan;
  part.updates = snapshot.checkpoint;
  const auto folder = store_->folder(snapshot.checkpoint);
  // Two runs that began at once, before either had a checkpoint.
  if (const auto there = checkpoint::read_manifest(folder); there.ok() && there->run != run_)
    return invalid(folder.string(), " is of run ", printable(there->run),
                   ", which writes there, too: give each run a folder of its own");
  return checkpoint::write_part(folder, part);
}

void NodeCheckpoints::write(const worker::Snapshot& snapshot) {
  const auto written = [&]() -> Result<checkpoint::PartEntry> {
    try {
      return write_part(snapshot);
    } catch (const std::exception& error) {
      return internal(error.what());  // the root waits for a word of this part
    }
  }();
  wire::PartWritten said{snapshot.checkpoint, {}, {}};
  if (written.ok())
    said.part = encode(*written);
  else
    said.failure = written.status().message();
  {
    const MutexLock lock(mutex_);
    writing_.reset();  // first: as soon as the root has heard of the part, another snapshot may come
    if (is_root() && under_way_ && under_way_->checkpoint == snapshot.checkpoint)
      under_way_->order = snapshot.part.order;
  }
  tell(0, std::move(said));
  if (written.ok() && uploads_) uploads_->upload(snapshot.checkpoint, written->file);
}

Status NodeCheckpoints::on_message(int from, wire::Checkpointing checkpointing) {
  if (const auto* written = std::get_if<wire::PartWritten>(&checkpointing)) {
    if (!is_root()) return invalid("it tells of its part of a checkpoint, which only the root hears");
    return on_part(from, *written);
  }
  if (const auto* uploaded = std::get_if<wire::PartUploaded>(&checkpointing)) {
    if (!is_root() || !uploads_) return invalid("it tells of its part in object storage, which only a root hears");
    uploads_->on_part(from, *uploaded);
  }
  if (auto* over = std::get_if<wire::CheckpointOver>(&checkpointing)) {
    if (from != 0 || is_root()) return invalid("only the root says that a checkpoint is complete");
    writer_.add([this, over = std::move(*over)] { on_over(over); });
  }
  return {};
}

Status NodeCheckpoints::on_part(int from, const wire::PartWritten& written) {
  std::optional<UnderWay> done;
  {
    const MutexLock lock(mutex_);
    if (!under_way_ || under_way_->checkpoint != written.checkpoint) return {};  // given up for another's sake
    if (!written.failure) {
      auto entry = checkpoint::decode_part_entry(written.part, "what it says of its part of a checkpoint");
      if (!entry.ok()) return invalid(entry.status().message());
      under_way_->parts.insert_or_assign(from, std::move(*entry));
      if (under_way_->parts.size() < options_.nodes.size()) return {};
      done = under_way_;
    }
  }
  if (done) {
    writer_.add(
        [this, complete_one = std::make_shared<UnderWay>(std::move(*done))] { complete(std::move(*complete_one)); });
    return {};
  }
  const std::string why = text(options_.nodes[static_cast<std::size_t>(from)], ": ", *written.failure);
  if (options_.clusters > 1)
    hand_in(written.checkpoint, unavailable(why));
  else
    give_up(written.checkpoint, why);
  return {};
}

void NodeCheckpoints::give_up(std::uint64_t checkpoint, const std::string& why) {
  {
    const MutexLock lock(mutex_);
    shares_.erase(checkpoint);
    if (!under_way_ || under_way_->checkpoint != checkpoint) return;
    under_way_.reset();
    changed_.notify_all();
  }
  const std::string last =
      this->last() == 0 ? "there is none yet" : text("the last one is that of update ", this->last());
  options_.warn(text("no checkpoint of update ", checkpoint, ": ", why, "; ", last));
  relay({checkpoint, {}});
}

// To the own stages.
void NodeCheckpoints::relay(const wire::CheckpointOver& over) {
  for (int stage = 1; stage < static_cast<int>(options_.nodes.size()); ++stage) options_.post(stage, over);
}

Manifest NodeCheckpoints::manifest_of(UnderWay done) const {
  Manifest manifest;
  manifest.run = run_;
  manifest.written = now_in_utc();
  manifest.strategy = options_.strategy;
  manifest.plan = options_.plan;
  manifest.updates = done.checkpoint;
  manifest.world = is_pipeline() ? options_.clusters : options_.world;
  manifest.position = done.position;
  manifest.settings = settings_;
  manifest.order = std::move(done.order);
  for (auto& [stage, part] : done.parts) manifest.parts.push_back(std::move(part));
  if (const auto mark = options_.mark(done.checkpoint)) {
    manifest.position.validations = mark->accuracies;
    manifest.position.window_loss = mark->window_loss;
    manifest.accuracy = mark->accuracy;
  }
  return manifest;
}

void NodeCheckpoints::complete(UnderWay done) {
  const std::uint64_t checkpoint = done.checkpoint;
  Share made = [&]() -> Share {
    try {
      return manifest_of(std::move(done));
    } catch (const std::exception& error) {
      return internal(error.what());  // others wait for a word of it
    }
  }();
  if (options_.clusters > 1) return hand_in(checkpoint, std::move(made));
  if (!made.ok()) return give_up(checkpoint, made.status().message());
  finish(*made);
}

// All parts are there.
void NodeCheckpoints::finish(const Manifest& manifest) {
  wire::CheckpointOver over{manifest.updates, {}};
  const Status kept = [&]() -> Status {
    try {
      over.manifest = encode(manifest);
      Status written = keep(manifest);
      if (written.ok() && uploads_) uploads_->complete(manifest);
      return written;
    } catch (const std::exception& error) {
      return internal(error.what());
    }
  }();
  if (!kept.ok()) {
    over.manifest.reset();
    options_.warn(text("no checkpoint of update ", manifest.updates, ": ", kept.message()));
  }
  relay(over);
  std::vector<std::uint32_t> others;
  {
    const MutexLock lock(mutex_);
    if (under_way_) others = under_way_->participants;
  }
  tell_clusters(over, others);
  const MutexLock lock(mutex_);
  if (kept.ok()) last_ = manifest.updates;
  under_way_.reset();
  changed_.notify_all();
}

void NodeCheckpoints::on_over(const wire::CheckpointOver& over) {
  if (!over.manifest) return;
  const auto manifest = checkpoint::decode_manifest(*over.manifest, "the manifest that the root has sent");
  Status kept = manifest.ok() ? keep(*manifest) : manifest.status();
  if (!kept.ok()) return options_.warn(text("no checkpoint of update ", over.checkpoint, " here: ", kept.message()));
  const MutexLock lock(mutex_);
  last_ = over.checkpoint;
}

Status NodeCheckpoints::keep(const Manifest& manifest) {
  Status unpruned;
  if (Status kept = store_->keep(manifest, options_.checkpoints.retention, unpruned); !kept.ok()) return kept;
  if (!unpruned.ok()) options_.warn(text("an older checkpoint could not be removed: ", unpruned.message()));
  return {};
}

void NodeCheckpoints::settle() {
  writer_.wait_until_idle();
  if (uploads_) uploads_->settle();
}

void NodeCheckpoints::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  stop_stores();
}

void NodeCheckpoints::stop_stores() {
  if (store_) store_->stop();
  if (another_) another_->stop();
}

bool NodeCheckpoints::is_stopped() const {
  const MutexLock lock(mutex_);
  return stopped_;
}

std::uint64_t NodeCheckpoints::last() const {
  const MutexLock lock(mutex_);
  return last_;
}

}  // namespace ravnest::train
