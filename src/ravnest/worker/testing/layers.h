// For tests: a model of two linear layers. Not part of any library.
#pragma once

#include <utility>

#include "ravnest/archive/testing/payloads.h"
#include "ravnest/graph/ir/testing/models.h"

namespace ravnest::worker::testing {

// x, of two columns, through "first.w", tanh and "second.w": operators 0, 1 and 2. In eval mode without the tanh. The
// first layer may be frozen.
inline ir::Model layers(bool first_is_trained = true) {
  using ir::Ref;
  ir::testing::ModelBuilder builder;
  const ir::testing::Sizes sizes = {ir::testing::dynamic("s0"), ir::testing::fixed(2)};
  archive::Payload first = archive::testing::float_payload({2, 2}, {1, -2, 3, 4});
  first.is_parameter = true;
  first.requires_grad = first_is_trained;
  const Ref w = builder.parameter("first.w", std::move(first));
  const Ref v = builder.parameter("second.w", {2, 2}, {2, 1, -1, 1});
  const Ref x = builder.input("x", sizes);
  const Ref a = builder.call("a", "torch.ops.aten.linear.default", {{"input", x}, {"weight", w}}, sizes);
  const Ref b = builder.call("b", "torch.ops.aten.tanh.default", {{"self", a}}, sizes);
  ir::Model model =
      builder.returns({builder.call("c", "torch.ops.aten.linear.default", {{"input", b}, {"weight", v}}, sizes)});
  model.eval.operators.erase(model.eval.operators.begin() + 1);
  model.eval.operators[1].inputs[0].value = a;
  return model;
}

}  // namespace ravnest::worker::testing
