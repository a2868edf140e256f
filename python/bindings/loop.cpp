#include "loop.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "ravnest/checkpoint/folder.h"
#include "ravnest/checkpoint/interval.h"
#include "ravnest/train/loop/feeder.h"
#include "ravnest/train/loop/leaf_labels.h"
#include "ravnest/train/node/labels.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;

// Null where it is over.
py::object next_of(const py::iterator& items) {
  PyObject* item = PyIter_Next(items.ptr());
  if (item == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(item);
}

// begin(epoch, skip) gives an iterator of items without the first ones, digest(item) a number. All with the GIL held.
class PyLabels final : public train::LabelSource {
 public:
  PyLabels(py::function begin, py::function digest, train::LabelNames names)
      : begin_(std::move(begin)), digest_(std::move(digest)), labels_(std::move(names)) {}

  Status begin(std::uint64_t epoch) override {
    epoch_ = epoch;
    items_ = py::iter(begin_(epoch, 0));
    return {};
  }
  Status skip(std::uint64_t items) override {
    items_ = py::iter(begin_(epoch_, items));
    return {};
  }
  Result<std::optional<std::uint64_t>> next() override {
    py::object item = next_of(items_);
    if (!item) return std::optional<std::uint64_t>();
    item_ = std::move(item);
    return std::optional(digest_(item_).cast<std::uint64_t>());
  }
  py::object item(std::uint64_t epoch, std::uint64_t index, std::uint64_t digest) {
    unwrap(labels_.go_to(*this, epoch, index, digest));
    return item_;
  }

 private:
  py::function begin_;
  py::function digest_;
  train::LeafLabels labels_;
  std::uint64_t epoch_ = 0;
  py::iterator items_;
  py::object item_;
};

}  // namespace

Status poll_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  return {};
}

std::vector<at::Tensor> model_inputs_of(const py::list& inputs) {
  std::vector<at::Tensor> tensors;
  for (const py::handle& input : inputs) {
    const c10::IValue value = to_ivalue(input);
    tensors.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
  }
  return tensors;
}

Status PyBatchSource::begin(std::uint64_t number) {
  const py::gil_scoped_acquire gil;
  number_ = number;
  taken_ = 0;
  items_ = py::iter(begin_(number, 0));
  return {};
}

Status PyBatchSource::skip(std::uint64_t batches) {
  if (batches == 0) return {};
  if (!skips_) return train::BatchSource::skip(batches);
  const py::gil_scoped_acquire gil;
  taken_ += batches;
  items_ = py::iter(begin_(number_, taken_));
  return {};
}

Result<std::optional<train::SourceBatch>> PyBatchSource::next() {
  const py::gil_scoped_acquire gil;
  const py::object item = next_of(items_);
  if (!item) return std::optional<train::SourceBatch>();
  ++taken_;
  const auto [inputs, digest] = item.cast<std::pair<py::list, std::uint64_t>>();
  return std::optional(train::SourceBatch{model_inputs_of(inputs), digest});
}

void bind_loop(py::module_& module) {
  module.attr("WHY_EMPTY") = std::string(train::kWhyEmpty);
  module.attr("ITERATE_AGAIN") = std::string(train::kIterateAgain);
  module.def(
      "label_digest", [](const std::vector<at::Tensor>& labels) { return train::label_digest(labels); },
      py::arg("labels"));
  // ValueError for what does not say how often checkpoints are made.
  module.def(
      "check_every", [](const std::string& written) { (void)accepted(checkpoint::parse_interval(written)); },
      py::arg("written"));
  module.def("resume_word", &checkpoint::resume_word, py::arg("said"));
  py::class_<train::BatchCounts, std::shared_ptr<train::BatchCounts>>(module, "BatchCounts")
      .def(py::init<std::string, std::string>(), py::arg("what"), py::arg("unit"))
      .def(
          "ended",
          [](train::BatchCounts& counts, std::uint64_t number, std::uint64_t batches) {
            return unwrap(counts.ended(number, batches));
          },
          py::arg("number"), py::arg("batches"));
  py::class_<train::Position, std::shared_ptr<train::Position>>(module, "Position")
      .def(py::init<>())
      .def_readwrite("epoch", &train::Position::epoch)
      .def_readwrite("index", &train::Position::index)
      .def_readwrite("trained", &train::Position::trained)
      .def_property_readonly("sweeping", [](const train::Position& own) { return own.sweeping.has_value(); });
  py::class_<PyBatchSource>(module, "BatchSource")
      .def(py::init<py::function, std::shared_ptr<train::BatchCounts>, std::uint64_t, bool>(), py::arg("begin"),
           py::arg("counts"), py::kw_only(), py::arg("batches"), py::arg("skips"));
  py::class_<PyLabels>(module, "Labels")
      .def(py::init([](py::function begin, py::function digest, std::string node, std::string root, std::string same,
                       std::string and_enough) {
             return std::make_unique<PyLabels>(
                 std::move(begin), std::move(digest),
                 train::LabelNames{std::move(node), std::move(root), std::move(same), std::move(and_enough)});
           }),
           py::arg("begin"), py::arg("digest"), py::kw_only(), py::arg("node"), py::arg("root"), py::arg("same"),
           py::arg("and_enough"))
      .def("item", &PyLabels::item, py::arg("epoch"), py::arg("index"), py::arg("digest"));
}

}  // namespace ravnest::python
