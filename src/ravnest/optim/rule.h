// How one kind of optimizer updates a parameter: everything that differs between them, as data and one function.
//
// To add an optimizer, write its rule in a file of its own, and name it in rules().
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "ravnest/optim/options.h"

namespace ravnest::optim {

// The optimizer state of one parameter, in the order of Rule::state. Undefined until the parameter's first update.
using Memory = std::array<at::Tensor, 4>;

// One parameter of an update. Its gradient is defined and has its sizes and dtype.
struct Slot {
  at::Tensor parameter;
  at::Tensor gradient;
  Memory* memory;
};

// One thing that an optimizer keeps for a parameter.
struct StateTensor {
  std::string_view name;
  bool counter = false;  // one number, on the CPU unless a fused operator on another device counts it
};

struct Rule {
  std::string_view name;
  std::vector<OptionSpec> options;
  std::vector<StateTensor> state;
  // What no option shows by itself. May be null.
  Status (*check)(const Options& options) = nullptr;
  // Updates all of a group's parameters that have gradients. Called without autograd's record.
  void (*update)(const Options& options, std::span<const Slot> slots);
};

Rule sgd_rule();
Rule adam_rule();
Rule adamw_rule();
Rule nadam_rule();
Rule rmsprop_rule();
Rule adagrad_rule();
Rule lamb_rule();

std::span<const Rule> rules();

// Whether the fused operators are asked for; rules without them have no such option.
bool fused(const Options& options);

// The gradient as the update uses it: turned round for maximize, with the L2 penalty's share.
at::Tensor penalized(const Slot& slot, bool maximize, double weight_decay);

// In place, as Python's tensor.mul_(factor). The C++ method of that name rounds the factor to bfloat16 first.
const at::Tensor& multiply(const at::Tensor& tensor, double factor);

// Makes a tensor of zeros like `like` where there is none yet.
at::Tensor& zeros(at::Tensor& tensor, const at::Tensor& like);

// A counter, made as needed: on the CPU, in torch's default dtype if that is double, else as a float.
at::Tensor& counter(at::Tensor& tensor, double first = 0);
// For a fused operator: where the parameter is, always a float.
at::Tensor& fused_counter(at::Tensor& tensor, c10::Device device);
// Adds one to a counter on the CPU and returns its new value.
double advance(at::Tensor& counter);

}  // namespace ravnest::optim
