// How a call of a rank ends: the parameters compared and saved, and what all ranks did.
#include <ATen/ATen.h>

#include <algorithm>
#include <system_error>

#include "ravnest/archive/pickle/state_dict.h"
#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/codec/crc32c.h"
#include "ravnest/strategy/communicate/texts.h"
#include "ravnest/train/rank/rank.h"

namespace ravnest::train {

Status Rank::finish(const wire::Task& task, const Poll& poll) {
  if (Status drained = drain(poll); !drained.ok()) return drained;
  if (Status kept = keep_last(task); !kept.ok()) return ended(kept);
  trains_ = false;
  if (const auto all_end = told_by_all(tells(Next::kCallEnd)); !all_end.ok()) return all_end.status();
  if (Status alike = compare_parameters(); !alike.ok()) return ended(alike);
  reach(task.epochs);
  if (task.save) {
    const Status saved = rank() == 0 ? save() : Status();
    const auto told = strategy::gather_texts(*communicator_, saved.message(), c10::kCPU,
                                             [&](strategy::Pending& pending) { return wait(pending, poll_); });
    if (!told.ok()) return ended(told.status());
    if (!told->front().empty())
      return ended_alike(unavailable(ranks_ ? ranks_->shown(0) + " could not save the model: " : "", told->front()));
  }
  Status gathered = gather_work();
  return gathered.ok() ? gathered : ended(gathered);
}

// One more checkpoint when training is over, and until all are written.
Status Rank::keep_last(const wire::Task& task) {
  if (!trains_ || !checkpoints_begun_) return {};
  if (Status taken = checkpoint_between_passes(task.epochs, /*is_last=*/true); !taken.ok() || !checkpoints_)
    return taken;
  if (Status written = written_by_now(); !written.ok()) return written;
  return while_polling(
      *checkpoints_, [&] { checkpoints_->settle(); }, poll_);
}

// All ranks take the same steps. Where they did not (an optimizer, a scheduler or a hook of the user's that goes by the
// rank), what is saved is nobody's.
Status Rank::compare_parameters() {
  if (world() == 1) return {};  // from a GPU they would all have to come to the host
  std::uint32_t checksum = 0;
  for (const at::Tensor& parameter : ddp_->parameters()) {
    const at::Tensor host = parameter.detach().to(at::kCPU).contiguous();
    checksum = codec::crc32c({static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()}, checksum);
  }
  std::vector<std::int64_t> checksums(static_cast<std::size_t>(world()));
  checksums[static_cast<std::size_t>(rank())] = checksum;
  const auto sum = communicator_->sum(std::span(checksums));
  if (Status summed = wait(*sum, poll_); !summed.ok()) return summed;
  const auto other = std::ranges::find_if(checksums, [&](std::int64_t each) { return each != checksums.front(); });
  if (other == checksums.end()) return {};
  return ended_alike(
      invalid("the parameters of ", strategy::rank_name(static_cast<int>(other - checksums.begin())),
              " are not those of rank_0 any more: an optimizer, a scheduler, a hook or the script itself changes them "
              "differently there. All ranks have to do the same"));
}

// The state dict, for torch.load and for all others.
std::array<std::filesystem::path, 2> Rank::saved_files() const {
  return {options_.trained / "trained_state_dict.pt", options_.trained / "trained_state_dict.safetensors"};
}

Status Rank::save() const {
  std::error_code error;
  std::filesystem::create_directories(options_.trained, error);
  if (error) return unavailable("cannot create the folder ", options_.trained.string(), ": ", error.message());
  const ir::Model model = engine_.model();
  const auto [state_dict, safetensors] = saved_files();
  Status written = archive::write_state_dict(state_dict, model.weights);
  if (written.ok()) written = archive::write_safetensors(safetensors, archive::Safetensors{{}, model.weights});
  if (written.ok()) options_.log.info("saved ", state_dict.string());
  return written;
}

Status Rank::gather_work() {
  constexpr std::size_t kNumbers = 7;
  const strategy::DdpTimes now = ddp_->times();
  std::vector<double> numbers(kNumbers * static_cast<std::size_t>(world()));
  const std::span<double> own = std::span(numbers).subspan(kNumbers * static_cast<std::size_t>(rank()), kNumbers);
  own[0] = seconds_between(begun_, SystemClock().now());
  own[1] = now.forward_s - times_before_.forward_s;
  own[2] = now.backward_s - times_before_.backward_s;
  own[3] = now.update_s - times_before_.update_s;
  own[4] = now.wait_s - times_before_.wait_s;
  own[5] = static_cast<double>(traffic().sent - traffic_before_.sent);
  own[6] = static_cast<double>(traffic().received - traffic_before_.received);
  const auto sum = communicator_->sum(std::span(numbers));
  if (Status summed = wait(*sum, poll_); !summed.ok()) return summed;
  work_.clear();
  for (int i = 0; i < world(); ++i) {
    const std::span<const double> each = std::span(numbers).subspan(kNumbers * static_cast<std::size_t>(i), kNumbers);
    work_.push_back({strategy::rank_name(i), each[0], each[1], each[2], each[3], each[4],
                     static_cast<std::uint64_t>(each[5]), static_cast<std::uint64_t>(each[6])});
  }
  return {};
}

// On the connections to the other ranks. What NCCL moves is not counted, and then the rest says nothing.
Rank::Traffic Rank::traffic() const {
  Traffic sum;
  for (int other = 0; ranks_ && !nccl_ && other < world(); ++other) {
    const auto peer = ranks_->endpoint().statistics(strategy::rank_name(other));
    if (!peer.ok()) continue;  // this rank itself
    sum.sent += peer->bytes_sent;
    sum.received += peer->bytes_received;
  }
  return sum;
}

report::RanksSummary Rank::summary(double seconds, std::uint64_t samples, std::uint64_t epochs) const {
  report::RanksSummary summary;
  summary.run.seconds = seconds;
  summary.run.samples = samples;
  summary.run.epochs = epochs;
  if (epochs > 0) summary.run.updates_per_epoch = (ddp_->steps() - steps_before_) / epochs;
  summary.run.accuracy = record_->accuracy();
  summary.run.bad_losses = record_->bad_losses();
  if (world() > 1 && training_options_.codec != codec::Codec())
    summary.run.compression = codec::to_string(training_options_.codec);
  if (world() > 1) summary.backend = nccl_ ? "NCCL" : "the ring";
  summary.strategy = world() > 1 ? "ddp" : "single";
  summary.precision = strategy::precision_name(options_.strategy.precision);
  if (options_.strategy.float32 == Float32::kTf32) summary.precision += " with tf32";
  if (const auto& scale = ddp_->loss_scale())
    summary.skipped = {.updates = scale->skipped() - skipped_before_, .loss_scale = scale->scale()};
  summary.ranks = work_;
  return summary;
}

}  // namespace ravnest::train
