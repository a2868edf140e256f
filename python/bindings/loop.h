// What Python gives the training loop: its batches, its labels, its signals.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bindings.h"
#include "ravnest/train/loop/batch_counts.h"
#include "ravnest/train/loop/batch_source.h"

namespace ravnest::python {

// Whoever waits in C++ still gets Ctrl-C: what a handler raises is thrown.
Status poll_signals();

// The model's inputs from a flat list. Those that are not tensors were baked into the graph when it was captured: they
// are undefined.
std::vector<at::Tensor> model_inputs_of(const pybind11::list& inputs);

// begin(number, skip) gives an iterator of (flat inputs, digest); with `skips` it need not load what is left out, and
// can be called again for the same number. The GIL is taken only while Python iterates; what the
// user's loader raises is thrown as it is, for whoever called the loop from Python.
class PyBatchSource final : public train::BatchSource {
 public:
  PyBatchSource(pybind11::function begin, std::shared_ptr<train::BatchCounts> counts, std::uint64_t batches, bool skips)
      : begin_(std::move(begin)), counts_(std::move(counts)), batches_(batches), skips_(skips) {}

  Status begin(std::uint64_t number) override;
  Result<std::optional<train::SourceBatch>> next() override;
  Status skip(std::uint64_t batches) override;
  std::uint64_t batches() const override { return batches_; }
  train::BatchCounts& counts() { return *counts_; }

 private:
  pybind11::function begin_;
  std::shared_ptr<train::BatchCounts> counts_;
  std::uint64_t batches_;
  bool skips_;
  std::uint64_t number_ = 0;
  std::uint64_t taken_ = 0;  // of that number, or left out
  pybind11::iterator items_;
};

}  // namespace ravnest::python
