// A step as a chain of units, for tests: users meet it as what a rank computes.
#include "ravnest/strategy/chain.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "ravnest/graph/cut/units.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;
using strategy::Chain;

struct Collected final : strategy::ChainObserver {
  Collected(const graph::Engine& whole, const Chain& watched) : engine(whole), chain(watched) {}

  void after_backward(int unit, std::span<at::Tensor> complete) override {
    for (std::size_t i = 0; i < complete.size(); ++i) {
      const std::size_t parameter = chain.parameters_of(unit)[i];
      if (complete[i].defined()) gradients[engine.names()[chain.parameters()[parameter]]] = complete[i];
    }
  }

  const graph::Engine& engine;
  const Chain& chain;
  std::map<std::string, at::Tensor> gradients;
};

std::vector<int> cuts_of(const graph::Engine& engine, bool blocks, int most_units, std::int64_t least_bytes) {
  graph::UnitOptions options;
  options.rule = blocks ? graph::UnitRule::kBlocks : graph::UnitRule::kBySize;
  options.most_units = most_units;
  options.least_bytes = least_bytes;
  return unwrap(graph::unit_cuts(engine.model(), options));
}

// (loss, gradients by name); `criterion` makes the loss of the flat outputs.
std::pair<at::Tensor, std::map<std::string, at::Tensor>> chain_step(const graph::Engine& engine,
                                                                    const std::vector<int>& cuts,
                                                                    const py::list& inputs,
                                                                    const py::function& criterion, std::uint64_t seed,
                                                                    std::uint64_t step) {
  const Chain chain = unwrap(Chain::cut(engine, cuts));
  Collected collected(engine, chain);
  std::vector<c10::IValue> values;
  for (const py::handle& input : inputs) values.push_back(to_ivalue(input));
  graph::RunOptions options;
  options.random = graph::RandomKey{seed, step};
  Chain::Pass pass = chain.forward(engine.tensors(), std::move(values), options, collected);
  py::list outputs;
  for (const c10::IValue& output : pass.outputs)
    outputs.append(output.isTensor() ? py::cast(output.toTensor()) : py::none());
  const at::Tensor loss = criterion(outputs).cast<at::Tensor>();
  {
    const py::gil_scoped_release release;
    chain.backward(std::move(pass), loss, collected);
  }
  return {loss, std::move(collected.gradients)};
}

}  // namespace

void bind_chain(py::module_& module) {
  module.def("unit_cuts", &cuts_of, py::arg("graph"), py::kw_only(), py::arg("blocks") = false,
             py::arg("most_units") = 12, py::arg("least_bytes") = 1 << 20);
  module.def("chain_step", &chain_step, py::arg("graph"), py::arg("cuts"), py::arg("inputs"), py::arg("criterion"),
             py::kw_only(), py::arg("seed"), py::arg("step"));
}

}  // namespace ravnest::python
