// What a rank has of a checkpoint: all of it, since all ranks have the same.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <utility>

#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"
#include "ravnest/base/printable.h"
#include "ravnest/strategy/ddp.h"
#include "ravnest/worker/part_records.h"

namespace ravnest::strategy {
namespace {

constexpr const char* kLossScale = "loss_scale";

std::string encode(const LossScale::State& state) {
  return nlohmann::json{{"scale", state.scale}, {"good", state.good}, {"skipped", state.skipped}}.dump();
}

Result<LossScale::State> decode_loss_scale(const std::string& written) {
  const auto parsed = parse_json_without_repeats(written, kLossScale);
  if (!parsed.ok()) return parsed.status();
  try {
    const Field field(*parsed, kLossScale);
    const auto count = [&](const char* name) {
      const std::int64_t number = field[name].integer();
      if (number < 0) field[name].fail("a negative number");
      return static_cast<std::uint64_t>(number);
    };
    return LossScale::State{field["scale"].number(), count("good"), count("skipped")};
  } catch (const DecodeError& error) {
    return error.status;
  }
}

}  // namespace

void Ddp::capture(checkpoint::Part& part) {
  state_.capture(part, engine_.tensors(), optimizer_.get(), /*weights_stay=*/false);
  if (loss_scale_) part.records[kLossScale] = encode(loss_scale_->state());
}

Status Ddp::capture_waiting(checkpoint::Part& part) {
  auto sums = gradients_.sums_so_far(communicator_, options_.wait);
  if (!sums.ok()) return sums.status();
  std::vector<std::int64_t> reached(reached_now_.begin(), reached_now_.end());
  if (Status summed = options_.wait(*communicator_.sum(std::span(reached))); !summed.ok()) return summed;
  if (communicator_.rank() != 0) return {};
  const at::NoGradGuard without_record;
  std::vector<at::Tensor> waiting(parameters_.size());
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (reached[i] == 0) continue;
    // Without the loss scale: who goes on may have another one, or none.
    waiting[i] = loss_scale_ ? (*sums)[i] / loss_scale_->scale() : (*sums)[i];
  }
  worker::note_gradients(part, state_.names(), waiting);
  return {};
}

Status Ddp::go_on_after(const checkpoint::Part& part, std::uint64_t steps) {
  if (Status fits = state_.fits(part, optimizer_.get()); !fits.ok()) return fits;
  LossScale::State state;
  if (const auto found = part.records.find(kLossScale); found != part.records.end()) {
    auto decoded = decode_loss_scale(found->second);
    if (!decoded.ok()) return decoded.status();
    state = *decoded;
    if (state.skipped > steps || (loss_scale_ && !loss_scale_->go_on(state)))
      return corrupt("the loss scale in the checkpoint is none: ", printable(found->second));
  }
  updates_ = steps - state.skipped;
  return {};
}

Status Ddp::restore(const checkpoint::Part& part, bool scheduled) {
  if (Status restored = state_.restore(part, optimizer_.get(), scheduled); !restored.ok()) return restored;
  precision_.weights_changed();
  if (communicator_.rank() != 0) return {};
  // One rank has what all had added up: the next update adds up what all have.
  const at::NoGradGuard without_record;
  std::vector<at::Tensor> waiting(parameters_.size());
  if (Status taken = worker::take_gradients(part, state_.names(), parameters_, waiting); !taken.ok()) return taken;
  std::vector<std::size_t> indices(waiting.size());
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    indices[i] = i;
    reached_now_[i] = waiting[i].defined();
    if (loss_scale_ && waiting[i].defined()) waiting[i].mul_(loss_scale_->scale());
  }
  gradients_.add(indices, waiting);
  return {};
}

}  // namespace ravnest::strategy
