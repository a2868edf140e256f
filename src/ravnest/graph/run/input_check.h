// Whether what a caller passes is what the graph was captured for.
#pragma once

#include <ATen/core/ivalue.h>

#include <span>
#include <string>
#include <vector>

#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/run/linear_size.h"

namespace ravnest::graph {

// Checks the number, types and sizes of a run's inputs against the capture. Built once per graph.
class InputCheck {
 public:
  explicit InputCheck(const ir::Graph& graph);

  // Throws c10::Error with a sentence that names the argument, what it is and what it should be. With
  // `any_floating_type` a floating tensor may be of another floating type than it was captured in.
  void operator()(std::span<const c10::IValue> inputs, bool any_floating_type = false) const;

 private:
  struct Dimension {
    std::int64_t size = 0;  // where it is fixed
    int symbol = -1;        // else the number of the symbol that it follows from, where that is known
    LinearSize linear;      // how
  };
  struct Expected {
    const ir::Input* input = nullptr;
    const ir::Value* value = nullptr;
    at::ScalarType dtype = at::kFloat;
    std::vector<Dimension> dimensions;
  };
  struct Bounds {
    std::string name;
    std::int64_t min = 0;
    std::int64_t max = 0;
  };

  void check_tensor(const Expected& expected, const c10::IValue& given, bool any_floating_type,
                    std::span<std::int64_t> symbols) const;

  std::vector<Expected> expected_;
  std::vector<Bounds> symbols_;
};

// What a batch must be like that one would not expect: a first dimension, a sequence length or an image's size that the
// capture fixed, a smallest or largest size. A sentence for each, for people who plan; fixed features of numbers are
// not worth one.
std::vector<std::string> input_limits(const ir::Graph& graph);

}  // namespace ravnest::graph
