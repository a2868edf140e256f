#include "ravnest/strategy/ddp.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <map>
#include <utility>

namespace ravnest::strategy {
namespace {

using at::Tensor;
using c10::IValue;

// Adds the time from its making to its end to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum), begun_(SystemClock().now()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { sum_ += std::chrono::duration<double>(SystemClock().now() - begun_).count(); }

 private:
  double& sum_;
  TimePoint begun_;
};

std::vector<Tensor> at_indices(std::span<const Tensor> tensors, std::span<const std::size_t> indices) {
  std::vector<Tensor> chosen;
  for (const std::size_t i : indices) chosen.push_back(tensors[i]);
  return chosen;
}

}  // namespace

SharedLoss::SharedLoss(const Tensor& values)
    : on_host_(values.is_cpu() ? values
                               : at::empty_like(values, values.options().device(at::kCPU).pinned_memory(true))
                                     .copy_(values, /*non_blocking=*/true)),
      copied_(values.device()) {}

Result<SharedLoss> SharedLoss::of(const Tensor& values, Pending& pending, const Waiter& wait) {
  if (Status summed = wait(pending); !summed.ok()) return summed;
  return SharedLoss(values);
}

Result<std::span<const double>> SharedLoss::values(TimePoint deadline) const {
  if (!copied_.hold_up_host(deadline)) return ravnest::deadline("the loss is not computed yet");
  return std::span(on_host_.const_data_ptr<double>(), static_cast<std::size_t>(on_host_.numel()));
}

Ddp::Ddp(const graph::Engine& engine, Chain chain, Communicator& communicator,
         std::unique_ptr<optim::Optimizer> optimizer, DdpOptions options)
    : engine_(engine),
      chain_(std::move(chain)),
      communicator_(communicator),
      optimizer_(std::move(optimizer)),
      options_(std::move(options)),
      criterion_(options_.criterion),
      parameters_(at_indices(engine.tensors(), chain_.parameters())),
      state_(engine, parameters_),
      precision_(engine, options_.precision),
      gradients_(chain_, parameters_, options_.compression, communicator.world() == 1),
      buffers_(at_indices(engine.tensors(), engine.written_buffers())),
      reached_now_(parameters_.size()) {
  if (options_.precision == Precision::kFp16) loss_scale_.emplace(options_.loss_scale);
}

Status Ddp::begin() {
  SharedBuffers all({engine_.tensors().begin(), engine_.tensors().end()});
  all.send(communicator_);
  Status arrived = all.wait(options_.wait);
  precision_.weights_changed();
  return arrived;
}

Result<SharedLoss> Ddp::train(const wire::PassHead& head, std::vector<IValue> inputs) {
  if (!optimizer_ && !parameters_.empty()) {
    return invalid("the model has ", parameters_.size(),
                   " parameters to train and no optimizer: give optimizer=, or freeze them (requires_grad_(False))");
  }
  graph::RunOptions run = precision_.run_options();
  run.random = graph::RandomKey{options_.seed, head.step};
  Chain::Pass pass;
  Tensor loss;
  {
    const Stopwatch watch(times_.forward_s);
    pass = chain_.forward(precision_.tensors(), precision_.inputs(std::move(inputs)), run, *this);
    auto result = criterion_(head, precision_.outputs(pass.outputs));
    if (!result.ok()) return result.status();
    loss = std::move(result->loss);
  }
  if (criterion_.is_new()) {
    const std::vector<Tensor> known = chain_.leaves(pass);
    if (Status checked = criterion_.check_leaves(loss, known); !checked.ok()) return checked;
  }
  // In the order of issue all ranks have to agree: the loss, the buffers, then the units from the last to the first.
  // `absent` keeps to the same order. Buffers go now, since only the forward moves them, and are under way while the
  // backward computes.
  const Sum shared = begin_loss(loss, head.weight);
  sends_ = head.update;
  if (sends_ && options_.broadcast_buffers) buffers_.send(communicator_);
  {
    const Stopwatch watch(times_.backward_s);
    const double factor = head.weight * (loss_scale_ ? loss_scale_->scale() : 1);
    chain_.backward(std::move(pass), factor == 1 ? loss : loss * factor, *this);
  }
  if (Status finished = finish_pass(head.update, true); !finished.ok()) return finished;
  return SharedLoss::of(shared.values, *shared.pending, options_.wait);
}

Result<SharedLoss> Ddp::absent(const wire::PassHead& head) {
  // Zeros in all sums: to the others this rank is one whose batch has no samples.
  const Sum shared = begin_loss({}, 0);
  if (!head.update) return SharedLoss::of(shared.values, *shared.pending, options_.wait);
  if (options_.broadcast_buffers) buffers_.send(communicator_);
  for (int unit = chain_.units(); unit-- > 0;) gradients_.send(unit, communicator_);
  gradients_.send(chain_.root(), communicator_);
  if (Status finished = finish_pass(true, false); !finished.ok()) return finished;
  return SharedLoss::of(shared.values, *shared.pending, options_.wait);
}

Ddp::Sum Ddp::begin_loss(const Tensor& loss, double weight) {
  const at::NoGradGuard without_record;
  // In float64, so that the sum is as exact as each rank's loss; and with a place for each rank, since a sum that is
  // not finite does not tell whose loss it was.
  Tensor values = at::zeros({1 + communicator_.world()}, at::TensorOptions(engine_.device()).dtype(at::kDouble));
  if (loss.defined()) {
    const Tensor own = loss.detach().reshape({}).to(at::kDouble);
    values[0].copy_(own * weight);
    values[1 + communicator_.rank()].copy_(own.isfinite().logical_not());
  }
  auto pending = communicator_.all_reduce(values);
  return {std::move(values), std::move(pending)};
}

Result<std::vector<IValue>> Ddp::evaluate(std::vector<IValue> inputs) {
  const at::NoGradGuard without_record;
  return precision_.outputs(engine_.run(graph::Mode::kEval, precision_.tensors(), precision_.inputs(std::move(inputs)),
                                        precision_.run_options()));
}

void Ddp::after_backward(int unit, std::span<Tensor> gradients) {
  // Noted before they are added: in a buffer a parameter that no loss reaches is zeros, like one whose gradient is
  // zero, and an optimizer with momentum or decay would move it.
  const std::span<const std::size_t> owned = chain_.parameters_of(unit);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) reached_now_[owned[i]] = true;
  }
  gradients_.add(owned, gradients);
  if (sends_) gradients_.send(unit, communicator_);
}

Status Ddp::finish_pass(bool updates, bool computed) {
  if (!updates) return {};
  {
    const Stopwatch watch(times_.wait_s);
    if (Status arrived = gradients_.wait(options_.wait); !arrived.ok()) return arrived;
    if (Status arrived = buffers_.wait(options_.wait); !arrived.ok()) return arrived;
  }
  // A rank without a batch now may have had one for an earlier pass of this update.
  const bool has_gradients = computed || std::ranges::count(reached_now_, true) > 0;
  if (reached_.empty()) {
    if (Status agreed = agree_on_reached(has_gradients); !agreed.ok()) return agreed;
  } else if (has_gradients) {
    if (Status same = check_reached(); !same.ok()) return same;
  }
  return update();
}

// Which parameters the losses reach is settled at the first update: an optimizer leaves the others as they are, and
// does so on all ranks or on none.
Status Ddp::agree_on_reached(bool computed) {
  std::vector<std::int64_t> counts(reached_now_.begin(), reached_now_.end());
  counts.push_back(computed ? 1 : 0);
  const auto sum = communicator_.sum(std::span(counts));
  if (Status summed = options_.wait(*sum); !summed.ok()) return summed;
  const std::int64_t ranks = counts.back();
  for (std::size_t i = 0; i < reached_now_.size(); ++i) {
    if (counts[i] == 0 || counts[i] == ranks) continue;
    return invalid("the losses of ", counts[i], " ranks reach the parameter ", engine_.names()[chain_.parameters()[i]],
                   ", those of ", ranks - counts[i], " do not: the criterion has to use the same outputs on all ranks");
  }
  for (std::size_t i = 0; i < reached_now_.size(); ++i) reached_.push_back(counts[i] > 0);
  return {};
}

Status Ddp::check_reached() const {
  const auto differs = std::ranges::mismatch(reached_now_, reached_);
  if (differs.in1 == reached_now_.end()) return {};
  const auto i = static_cast<std::size_t>(differs.in1 - reached_now_.begin());
  return invalid("the loss of update ", steps() + 1, reached_now_[i] ? " reaches" : " does not reach",
                 " the parameter ", engine_.names()[chain_.parameters()[i]],
                 ", unlike that of the first: with several ranks, each loss "
                 "has to reach the same parameters");
}

Status Ddp::update() {
  const Stopwatch watch(times_.update_s);
  std::vector<Tensor> gradients(gradients_.windows().begin(), gradients_.windows().end());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!reached_[i]) gradients[i].reset();
  }
  if (unscale(gradients)) {
    if (options_.on_gradients) options_.on_gradients(gradients);
    if (optimizer_) optimizer_->step(parameters_, gradients);
    precision_.weights_changed();
    ++updates_;
  }
  gradients_.clear();
  reached_now_.assign(reached_now_.size(), false);
  return {};
}

// Takes the loss scale off the gradients of all ranks. Whether they are finite: these are the same everywhere.
bool Ddp::unscale(std::span<const Tensor> gradients) {
  if (!loss_scale_) return true;
  const at::NoGradGuard without_record;
  std::map<at::ScalarType, std::vector<Tensor>> by_type;
  for (const Tensor& gradient : gradients) {
    if (gradient.defined()) by_type[gradient.scalar_type()].push_back(gradient);
  }
  bool finite = true;
  const auto float_on_device = at::TensorOptions(engine_.device()).dtype(at::kFloat);
  for (const auto& [type, own] : by_type) {
    Tensor overflow = at::zeros({1}, float_on_device);
    at::_amp_foreach_non_finite_check_and_unscale_(own, overflow,
                                                   at::full({1}, 1 / loss_scale_->scale(), float_on_device));
    finite = overflow.item<float>() == 0 && finite;
  }
  loss_scale_->on_update(finite);
  return finite;
}

}  // namespace ravnest::strategy
