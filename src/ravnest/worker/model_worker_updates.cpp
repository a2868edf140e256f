// How a worker's weights change: by its optimizer, by other stages that use them, by other clusters.
#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "ravnest/worker/model_worker.h"

namespace ravnest::worker {

using at::Tensor;

Result<std::vector<Outgoing>> ModelWorker::run_update(const Update& update, std::vector<wire::TiedTensors> tied) {
  std::vector<Outgoing> outgoing;
  if (update.steps) {
    if (Status stepped = step(update.number, std::move(tied), outgoing); !stepped.ok()) return stepped;
  }
  if (update.takes > 0) {
    if (Status taken = take_in(); !taken.ok()) return taken;
  }
  if (update.gives > 0) {
    if (Status given = give(update.gives, 0); !given.ok()) return given;
  }
  if (update.checkpoint > 0)
    snapshots_.take(update.checkpoint, update.number + 1, store_, optimizer_.get(), gradients_, /*tied_follow=*/true,
                    carried());
  auto values = tied_.values(update.number + 1, store_.newest(), options_.host_memory);
  std::ranges::move(values, std::back_inserter(outgoing));
  return outgoing;
}

Status ModelWorker::step(std::uint64_t number, std::vector<wire::TiedTensors> tied, std::vector<Outgoing>& outgoing) {
  if (!ties_pass_by_pass(options_.schedule)) {
    auto later = tied_.sum(std::move(tied), store_.parameters(), options_.codec);
    if (!later.ok()) return later.status();
    for (std::size_t i = 0; i < later->size(); ++i) {
      Tensor& sum = (*later)[i];
      if (sum.defined()) gradients_[i] = gradients_[i].defined() ? sum + gradients_[i] : std::move(sum);
    }
    send_tied(gradients_, number, outgoing);
  }
  if (options_.before_update) options_.before_update(epoch_);
  if (options_.on_gradients) options_.on_gradients(gradients_);
  if (optimizer_ && !gradients_.empty()) {
    store_.prepare();
    optimizer_->step(store_.parameters(), gradients_);
    store_.publish();
    note_versions();
  }
  stepped_ = true;
  for (Tensor& gradient : gradients_) gradient.reset();
  ++updates_;
  if (options_.on_update) options_.on_update(updates_);
  return {};
}

// -- averaging with other clusters

Status ModelWorker::give(std::uint64_t gives, std::uint64_t takes) {
  if (takes > 0) {
    if (Status taken = take_in(); !taken.ok()) return taken;
  }
  options_.averaging->give(gives, averaging_groups_->values(store_, averaged_optimizer()));
  stepped_ = false;
  return {};
}

Status ModelWorker::take_in() {
  store_.prepare();
  average::RoundResult result = options_.averaging->take();
  if (result.carried) {
    carried_ = std::move(result.carried);
    held_ = carried_->holds ? averaging_groups_->beyond_16_bits(result.mean, snapshots_.names(), store_)
                            : checkpoint::RecordTensors();
  }
  Status taken = averaging_groups_->take_in(result, !stepped_, store_, averaged_optimizer());
  store_.publish();
  note_versions();
  return taken;
}

// The gradients of weights that are kept elsewhere go there.
void ModelWorker::send_tied(std::span<Tensor> gradients, std::uint64_t number, std::vector<Outgoing>& outgoing) const {
  auto messages = tied_.take_out(gradients, number, [this](const Tensor& gradient) { return packed(gradient); });
  std::ranges::move(messages, std::back_inserter(outgoing));
}

void ModelWorker::note_versions() { versions_most_ = std::max(versions_most_.load(), store_.alive()); }

Status ModelWorker::adopt(wire::TiedTensors values) {
  store_.prepare();
  Status adopted = tied_.adopt(values, store_.parameters());
  store_.publish();
  note_versions();
  const int keeper = static_cast<int>(values.stage);
  if (adopted.ok()) snapshots_.adopted(keeper, values.number, tied_.kept_by(keeper), store_);
  return adopted;
}

// -- checkpoints

// The pass asks for all updates before it, and so for the values of all tied weights.
Status ModelWorker::snapshot(std::uint64_t checkpoint) {
  snapshots_.take(checkpoint, 0, store_, optimizer_.get(), gradients_, /*tied_follow=*/false, carried());
  return {};
}

std::vector<std::string> ModelWorker::options_kept(const checkpoint::Part& part) const {
  return snapshots_.options_kept(part, optimizer_.get(), options_.scheduled);
}

// Schedules first, from the optimizer's own rates on: they come to what they were by the same steps.
Status ModelWorker::restore(const checkpoint::Part& part, std::uint64_t updates) {
  updates_ = updates;
  if (options_.on_update) options_.on_update(updates_);
  Status restored = snapshots_.restore(part, store_, optimizer_.get(), options_.scheduled, gradients_);
  return restored.ok() && averaging_groups_ ? carry_on(part) : restored;
}

// By the parameters' names, so that it is found again where clusters are cut elsewhere.
Snapshots::Records ModelWorker::carried() const {
  if (!averaging_groups_ || !carried_) return {};
  return {{kAveragingMomentum, averaging_groups_->named(carried_->momentum, snapshots_.names(), store_)},
          {kAveragingResiduals, averaging_groups_->named(carried_->residuals, snapshots_.names(), store_)},
          {kAveragingHeld, held_}};
}

Status ModelWorker::carry_on(const checkpoint::Part& part) {
  const auto of = [&](const char* record) -> Result<std::vector<std::vector<float>>> {
    const auto found = part.record_tensors.find(record);
    if (found == part.record_tensors.end()) return std::vector<std::vector<float>>();
    return averaging_groups_->by_group(found->second, snapshots_.names(), store_);
  };
  auto momentum = of(kAveragingMomentum);
  if (!momentum.ok()) return momentum.status();
  auto residuals = of(kAveragingResiduals);
  if (!residuals.ok()) return residuals.status();
  average::StageValues values = averaging_groups_->values(store_, nullptr);
  if (const auto held = part.record_tensors.find(kAveragingHeld); held != part.record_tensors.end()) {
    Status taken = averaging_groups_->take_beyond_16_bits(held->second, snapshots_.names(), store_, values);
    if (!taken.ok()) return taken;
  }
  options_.averaging->begin_with(std::move(values),
                                 {.momentum = std::move(*momentum), .residuals = std::move(*residuals)});
  return {};
}

}  // namespace ravnest::worker
