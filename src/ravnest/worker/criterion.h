// What is asked of a user's criterion, by whoever computes a loss: a pipeline's last stage, a rank of a data-parallel
// run.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/wire/message.h"

namespace ravnest::worker {

// What a criterion thinks of a pass's outputs.
struct CriterionResult {
  at::Tensor loss;  // of one element; a pass that does not train may go without
  std::uint64_t samples = 0;
  std::uint64_t correct = 0;
};

// Given the model's outputs, flat. Called for passes that train or validate.
using Criterion = std::function<CriterionResult(const wire::PassHead& head, const std::vector<c10::IValue>& outputs)>;

// A criterion that is held to what training needs of it. kInvalid, in a sentence for the user, where it does not keep
// to that; what it throws passes through. For one thread.
class CheckedCriterion {
 public:
  explicit CheckedCriterion(Criterion criterion) : criterion_(std::move(criterion)) {}

  // Of a pass that trains the loss has one element and a gradient.
  Result<CriterionResult> operator()(const wire::PassHead& head, const std::vector<c10::IValue>& outputs) const;

  // Whether `check_leaves` is still to be called: at the first loss that trains, since criteria do not change.
  bool is_new() const { return is_new_; }
  // kInvalid unless the loss has a gradient of some of `known`, which are trained or lead to what is, and of nothing
  // else: no optimizer would train the parameters of a criterion.
  Status check_leaves(const at::Tensor& loss, std::span<const at::Tensor> known);

 private:
  Criterion criterion_;
  bool is_new_ = true;
};

}  // namespace ravnest::worker
