#include "ravnest/worker/loss_leaves.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <unordered_set>

namespace ravnest::worker {

LossLeaves leaves_of(const at::Tensor& loss, std::span<const at::Tensor> known) {
  LossLeaves leaves;
  std::vector<torch::autograd::Node*> left = {loss.grad_fn().get()};
  std::unordered_set<torch::autograd::Node*> seen;
  while (!left.empty()) {
    torch::autograd::Node* node = left.back();
    left.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (const torch::autograd::Edge& edge : node->next_edges()) left.push_back(edge.function.get());
    const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node);
    if (leaf == nullptr) continue;
    const bool is_known =
        std::ranges::any_of(known, [&](const at::Tensor& tensor) { return tensor.is_same(leaf->variable); });
    if (is_known)
      leaves.reaches_known = true;
    else
      leaves.others.push_back(leaf->variable);
  }
  return leaves;
}

}  // namespace ravnest::worker
