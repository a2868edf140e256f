// How ranks make checkpoints, and go on from one: rank 0 writes and reads, and what it has read all are given.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ravnest/checkpoint/part_file.h"
#include "ravnest/strategy/communicate/texts.h"
#include "ravnest/train/rank/plainly.h"
#include "ravnest/train/rank/rank.h"
#include "ravnest/worker/part_records.h"

namespace ravnest::train {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(50);
// A state travels in pieces of so many bytes.
constexpr std::int64_t kPiece = std::int64_t{64} << 20;

std::string word(const std::string& setting) { return setting.empty() ? "none" : setting; }

}  // namespace

std::vector<wire::Setting> Rank::checkpoint_settings() const {
  const CheckpointOptions& wanted = training_options_.checkpoints;
  if (!wanted.wanted()) return {{"checkpoint", "none"}};
  return {{"checkpoint", wanted.folder.string()},
          {"checkpoint_every", checkpoint::words(wanted.every)},
          {"resume", word(wanted.resume)}};
}

// -- before anything is trained

Status Rank::begin_checkpoints(const std::map<std::string, std::string>& settings) {
  if (!training_options_.checkpoints.wanted() || std::exchange(checkpoints_begun_, true)) return {};
  due_ = checkpoint::Due(training_options_.checkpoints.every);
  due_.begin(0, 0, SystemClock().now());
  std::optional<checkpoint::Part> part;
  Status found;
  if (rank() == 0) {
    auto own = find_checkpoint(settings);
    found = own.status();
    if (own.ok()) part = std::move(*own);
  }
  const auto told = strategy::gather_texts(*communicator_, found.message(), c10::kCPU,
                                           [&](strategy::Pending& pending) { return wait(pending, poll_); });
  if (!told.ok()) return ended(told.status());
  if (!told->front().empty()) return ended_alike(invalid(told->front()));
  if (Status shared = share_checkpoint(part); !shared.ok()) return ended(shared);
  if (!part) return {};
  const Status gone_on = plainly([&] { return go_on_from(*part); });
  if (gone_on.code() == Code::kInvalid || gone_on.code() == Code::kNotFound) return ended_alike(gone_on);
  if (!gone_on.ok()) return ended(gone_on);
  if (!checkpoints_) return {};
  if (Status removed = checkpoints_->remove_later(); !removed.ok()) return ended(removed);
  warn(text("goes on from the checkpoint of update ", resumed_->updates, " in ", checkpoints_->source_name()));
  if (const auto changes = checkpoints_->what_changed(options_kept_)) warn(*changes);
  return {};
}

// Of rank 0, which alone needs the folder.
Result<std::optional<checkpoint::Part>> Rank::find_checkpoint(const std::map<std::string, std::string>& settings) {
  NodeCheckpointsOptions options;
  options.checkpoints = training_options_.checkpoints;
  options.strategy = world() > 1 ? "ddp" : "single";
  options.world = static_cast<std::uint64_t>(world());
  options.nodes = {name()};
  options.mark = [this](std::uint64_t checkpoint) { return record_->mark(checkpoint); };
  options.warn = [this](const std::string& line) { warn(line); };
  checkpoints_ = std::make_unique<NodeCheckpoints>(std::move(options));
  std::map<std::string, std::string> all = recorded_settings_;
  all.insert(settings.begin(), settings.end());
  all["ranks"] = std::to_string(world());
  checkpoints_->set_settings(std::move(all));
  const checkpoint::TensorNames names = checkpoint::tensor_names(engine_);
  const auto found = [&]() -> Result<std::optional<checkpoint::Part>> {
    auto readable = checkpoints_->readable();
    if (!readable.ok()) return readable.status();
    const auto chosen = checkpoints_->choose({{.call = "train", .settings = {}, .checkpoints = std::move(*readable)}});
    if (!chosen.ok()) return chosen.status();
    return checkpoints_->begin(*chosen, names.weights, names.buffers);
  };
  Result<std::optional<checkpoint::Part>> part = std::optional<checkpoint::Part>();
  const Status looked = while_polling(
      *checkpoints_, [&] { part = found(); }, poll_);
  if (!looked.ok()) return looked;
  resumed_ = checkpoints_->resumed();
  return part;
}

// Rank 0's, where it has one, on all ranks.
Status Rank::share_checkpoint(std::optional<checkpoint::Part>& part) {
  if (world() == 1) return {};
  std::string manifest;
  std::string state;
  if (part) {
    manifest = encode(*resumed_);
    part->name = "model";
    const auto written = checkpoint::write_part(*part, [&](ByteSpan bytes) -> Status {
      state.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    });
    if (!written.ok()) return written.status();
  }
  if (Status shared = share_bytes(manifest); !shared.ok()) return shared;
  if (manifest.empty()) return {};
  if (Status shared = share_bytes(state); !shared.ok()) return shared;
  if (rank() == 0) return {};
  auto read_manifest = checkpoint::decode_manifest(manifest, "the manifest that rank 0 has sent");
  if (!read_manifest.ok()) return read_manifest.status();
  resumed_ = std::move(*read_manifest);
  const auto owner = std::make_shared<const std::string>(std::move(state));
  auto read = checkpoint::read_part(std::as_bytes(std::span(*owner)), owner, "the state that rank 0 has sent");
  if (!read.ok()) return read.status();
  part = std::move(*read);
  return {};
}

Status Rank::share_bytes(std::string& bytes) {
  std::array<std::int64_t, 1> size = {static_cast<std::int64_t>(bytes.size())};
  if (rank() != 0) size[0] = 0;
  if (Status told = wait(*communicator_->sum(std::span(size)), poll_); !told.ok()) return told;
  bytes.resize(static_cast<std::size_t>(size[0]));
  if (bytes.empty()) return {};
  const at::Tensor all = at::from_blob(bytes.data(), {size[0]}, at::kByte);
  for (std::int64_t begin = 0; begin < size[0]; begin += kPiece) {
    const auto piece = communicator_->broadcast(all.slice(0, begin, std::min(begin + kPiece, size[0])), 0);
    if (Status arrived = wait(*piece, poll_); !arrived.ok()) return arrived;
  }
  return {};
}

// Schedules first, from the optimizer's own rates on: they come to what they were by the same steps.
Status Rank::go_on_from(const checkpoint::Part& part) {
  const checkpoint::Manifest& from = *resumed_;
  // One of several clusters has a number that may be another cluster's.
  const std::uint64_t steps = from.position.updates > 0 ? from.position.updates : from.updates;
  if (Status counted = ddp_->go_on_after(part, steps); !counted.ok()) return counted;
  reach(from.position.epoch);
  if (training_options_.on_update) training_options_.on_update(ddp_->updates());
  options_kept_ = ddp_->options_kept(part, training_options_.scheduled);
  if (Status restored = ddp_->restore(part, training_options_.scheduled); !restored.ok()) return restored;
  if (Status taken = worker::take_own_state(part, training_options_.criterion_state); !taken.ok()) return taken;
  position_ = from.position;
  position_.updates = 0;
  // No key is drawn with twice, whatever the world was.
  const auto ranks = static_cast<std::uint64_t>(world());
  passes_ = (position_.passes + ranks - 1) / ranks;
  due_.begin(steps, position_.epoch, SystemClock().now());
  record_->go_on({.updates = steps,
                  .accuracies = from.position.validations,
                  .window_loss = from.position.window_loss,
                  .accuracy = from.accuracy});
  return {};
}

// -- while it trains

// The one that rank 0 makes of the update that there was just now; 0: none.
std::uint64_t Rank::checkpoint_due() {
  if (!checkpoints_ || checkpoints_->under_way() || !due_.after_update(ddp_->steps(), SystemClock().now())) return 0;
  return ddp_->steps();
}

// What validated the epoch before was fed by now.
Status Rank::checkpoint_of_epoch(const Batch& batch) {
  if (!checkpoints_begun_ || batch.index > 0 || !due_.after_epoch(batch.epoch)) return {};
  return checkpoint_between_passes(batch.epoch, /*is_last=*/false);
}

// On all ranks: what waits for its update is that of all. So many epochs are over.
Status Rank::checkpoint_between_passes(std::uint64_t epochs, bool is_last) {
  if (epochs > position_.epoch) {
    position_.epoch = epochs;
    position_.index = 0;
  }
  checkpoint::Part part;
  if (position_.trained % training_options_.update_frequency != 0) {
    if (Status waiting = plainly([&] { return ddp_->capture_waiting(part); }); !waiting.ok()) return waiting;
  }
  if (ddp_->steps() == due_.updates()) return {};
  if (!is_last && checkpoints_ && checkpoints_->is_behind()) {
    warn(text("makes no checkpoint of epoch ", epochs, ": earlier ones are still on their way to ",
              training_options_.checkpoints.folder.string()));
    return {};
  }
  if (!checkpoints_) {
    due_.made(ddp_->steps(), position_.epoch, SystemClock().now());
    return {};
  }
  if (Status taken = take_reports(0); !taken.ok()) return taken;
  if (Status written = written_by_now(); !written.ok()) return written;
  if (Status expected = record_->expect_checkpoint(ddp_->steps()); !expected.ok()) return expected;
  return take_snapshot(std::move(part));
}

// Of rank 0: until none is under way.
Status Rank::written_by_now() {
  while (!checkpoints_->wait_for_last(SystemClock().now() + kLookEvery)) {
    if (Status polled = poll_ ? poll_() : Status(); !polled.ok()) return polled;
  }
  return {};
}

// Of rank 0. What the record says of this update is said before the manifest asks for it.
Status Rank::take_snapshot(checkpoint::Part part) {
  if (Status taken = take_reports(0); !taken.ok()) return taken;
  const std::uint64_t steps = ddp_->steps();
  worker::Snapshot snapshot{.checkpoint = steps, .part = std::move(part), .version = nullptr};
  const Status captured = plainly([&]() -> Status {
    ddp_->capture(snapshot.part);
    worker::note_own_state(snapshot.part, training_options_.criterion_state);
    return {};
  });
  if (!captured.ok()) return captured;
  checkpoints_->announce(steps, position_);
  due_.made(steps, position_.epoch, SystemClock().now());
  checkpoints_->take(std::move(snapshot));
  return {};
}

// -- ending on purpose

bool Rank::want_end(const std::string& why) {
  if (ends_) return true;
  if (!trains_ || !checkpoints_begun_ || ddp_->steps() == steps_before_) return false;
  if (!told_to_end_) told_to_end_ = why;
  return true;
}

std::optional<std::string> Rank::end_wanted() const {
  if (!ends_ || position_.trained % training_options_.update_frequency != 0) return std::nullopt;
  return "a rank was told to end";
}

Result<std::string> Rank::end_early(std::uint64_t epochs, const Poll& poll) {
  if (Status finished = finish({false, "", epochs}, poll); !finished.ok()) return finished;
  const auto why = strategy::gather_texts(*communicator_, told_to_end_.value_or(""), c10::kCPU,
                                          [&](strategy::Pending& pending) { return wait(pending, poll_); });
  if (!why.ok()) return ended(why.status());
  std::array<std::int64_t, 1> told_last = {checkpoints_ ? static_cast<std::int64_t>(checkpoints_->last()) : 0};
  if (Status told = wait(*communicator_->sum(std::span(told_last)), poll_); !told.ok()) return ended(told);
  const auto last = static_cast<std::uint64_t>(told_last[0]);
  const auto first = std::ranges::find_if(*why, [](const std::string& each) { return !each.empty(); });
  const std::string who = text(strategy::rank_name(static_cast<int>(first - why->begin())), " ", *first);
  if (last == ddp_->steps()) return text(who, ": the run ends after the checkpoint of update ", last);
  // A failure: whoever starts the run anew is not to count on it.
  return ended_alike(unavailable(who, ": the run ends without a checkpoint of update ", ddp_->steps(), "; ",
                                 last == 0 ? "there is none" : text("the last one is that of update ", last)));
}

}  // namespace ravnest::train
