#include "ravnest/worker/loss_leaves.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <unordered_set>

namespace ravnest::worker {

std::vector<at::Tensor> other_leaves(const at::Tensor& loss, std::span<const at::Tensor> known) {
  std::vector<at::Tensor> others;
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
    if (!is_known) others.push_back(leaf->variable);
  }
  return others;
}

}  // namespace ravnest::worker
