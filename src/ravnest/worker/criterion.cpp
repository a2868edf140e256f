#include "ravnest/worker/criterion.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <utility>

#include "ravnest/worker/loss_leaves.h"

namespace ravnest::worker {
namespace {

// A loss that nothing is trained by. What to look for depends on whether the model's outputs have a gradient.
Status no_gradient(const std::vector<c10::IValue>& outputs) {
  const bool reaches_outputs = std::ranges::any_of(
      outputs, [](const c10::IValue& output) { return output.isTensor() && output.toTensor().requires_grad(); });
  if (reaches_outputs) {
    return invalid(
        "the criterion's loss has no gradient, though the model's outputs have one, so nothing would be trained: look "
        "for .detach(), .item(), .data, .argmax(), torch.no_grad() and torch.tensor(...) in the criterion");
  }
  return invalid(
      "neither the model's outputs nor the loss have a gradient, so nothing would be trained: all parameters are "
      "frozen (requires_grad=False), or the model's forward ends with .detach(), under torch.no_grad() or in whole "
      "numbers");
}

}  // namespace

Result<CriterionResult> CheckedCriterion::operator()(const wire::PassHead& head,
                                                     const std::vector<c10::IValue>& outputs) const {
  if (head.kind == wire::PassKind::kPredict) return CriterionResult();
  if (!criterion_) return invalid("the last stage has no criterion to compute its loss with");
  const bool trains = head.kind == wire::PassKind::kTrain;
  const at::AutoGradMode with_gradients(trains);
  CriterionResult result = criterion_(head, outputs);
  if (trains && (!result.loss.defined() || result.loss.numel() != 1)) {
    return invalid("the criterion must give a loss of one element, not ",
                   result.loss.defined() ? text("of the sizes ", result.loss.sizes()) : "none");
  }
  if (trains && !result.loss.requires_grad()) return no_gradient(outputs);
  return result;
}

Status CheckedCriterion::check_leaves(const at::Tensor& loss, std::span<const at::Tensor> known) {
  is_new_ = false;
  const auto [reaches_known, others] = leaves_of(loss, known);
  if (others.empty() && reaches_known) return {};
  if (others.empty()) {
    return invalid(
        "the gradient of the criterion's loss does not reach the model's outputs, so nothing would be trained: look "
        "for .detach(), .item(), .data, torch.no_grad() and requires_grad_() in the criterion");
  }
  return invalid("the criterion has ", others.size(), others.size() == 1 ? " parameter" : " parameters",
                 " of its own, of the sizes ", others.front().sizes(), others.size() == 1 ? "" : " and others",
                 ", which no optimizer would train: make them part of the model, or freeze them "
                 "(requires_grad_(False))");
}

}  // namespace ravnest::worker
