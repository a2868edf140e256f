#include "ravnest/data/dataset.h"

#include <ATen/ATen.h>

#include <functional>
#include <numeric>
#include <optional>

#include "ravnest/graph/operators/tensors.h"

namespace ravnest::data {
namespace {

at::Tensor as_tensor(const archive::Array& array) {
  const at::TensorOptions options = at::TensorOptions().dtype(graph::to_torch(array.dtype));
  if (array.bytes.size() == 0) return at::empty(array.shape, options);
  // torch has no memory that is only read; that nobody writes is Dataset's contract.
  auto* data = const_cast<std::byte*>(array.bytes.bytes.data());
  return at::from_blob(
      data, array.shape, [owner = array.bytes.owner](void*) {}, options);
}

Result<at::Tensor> computable(const at::Tensor& tensor, std::string_view what) {
  switch (tensor.scalar_type()) {
    case at::kUInt16: return tensor.to(at::kInt);
    case at::kUInt32: return tensor.to(at::kLong);
    case at::kUInt64:
      return unsupported("the ", what, " are uint64, which torch does not compute with; save them as int64");
    default: return tensor;
  }
}

Result<Dataset> select_rows(const Samples& samples, const DataOptions& options) {
  const std::int64_t size = samples.inputs.rows();
  const std::int64_t first = options.first.value_or(0);
  const std::int64_t last = options.last.value_or(size);
  if (size == 0) return invalid("there are no samples in ", options.inputs.front().string());
  if (first < 0 || last > size || first >= last)
    return invalid("rows [", first, ", ", last, "] were asked for, and ", options.inputs.front().string(),
                   options.inputs.size() > 1 ? " and the files after it have " : " has ", size,
                   "; the first has to be below the last, and the last at most ", size);
  return Dataset{as_tensor(samples.inputs).narrow(0, first, last - first),
                 as_tensor(samples.targets).narrow(0, first, last - first)};
}

std::optional<at::ScalarType> dtype_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(DType::kUInt64); ++i) {
    if (dtype_name(static_cast<DType>(i)) == name) return graph::to_torch(static_cast<DType>(i));
  }
  return std::nullopt;
}

Result<at::Tensor> reshaped(const at::Tensor& inputs, const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return inputs;
  std::int64_t wanted = 1;
  const std::int64_t there = inputs.numel() / inputs.size(0);
  for (const std::int64_t size : shape) {
    if (size < 1) return invalid("shape ", archive::shown(shape), " has a size below 1");
    if (wanted > there) break;
    wanted *= size;
  }
  if (wanted != there)
    return invalid("shape ", archive::shown(shape), " does not fit the inputs: a sample has ", there,
                   " numbers, in the shape ", archive::shown(inputs.sizes().slice(1).vec()));
  std::vector<std::int64_t> sizes = {inputs.size(0)};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return inputs.reshape(sizes);
}

Result<at::Tensor> scaled(at::Tensor inputs, const DataOptions& options) {
  if (!options.inputs_dtype.empty()) {
    const std::optional<at::ScalarType> dtype = dtype_named(options.inputs_dtype);
    if (!dtype)
      return invalid("inputs_dtype: there is no dtype \"", options.inputs_dtype, "\"; float32 and int64 are some");
    inputs = inputs.to(*dtype);
  }
  if (options.scale == 1) return inputs;
  if (!inputs.is_floating_point() && !inputs.is_complex()) {
    if (!options.inputs_dtype.empty())
      return invalid("scale: inputs of dtype ", options.inputs_dtype, " cannot be scaled by ", options.scale,
                     "; ask for float32");
    inputs = inputs.to(at::kFloat);
  }
  return inputs.mul(options.scale);
}

Result<at::Tensor> classes(at::Tensor targets, std::int64_t one_hot) {
  const bool whole = at::isIntegralType(targets.scalar_type(), /*includeBool=*/false);
  if (whole) targets = targets.to(at::kLong);
  if (one_hot == 0) return targets;
  if (!whole)
    return invalid("one_hot needs whole numbers as targets, and these are ",
                   dtype_name(graph::from_torch(targets.scalar_type())));
  const at::Tensor outside = targets.lt(0).logical_or(targets.ge(one_hot)).flatten().nonzero();
  if (outside.size(0) > 0) {
    const std::int64_t at = outside[0].item<std::int64_t>();
    return invalid("one_hot: target ", targets.flatten()[at].item<std::int64_t>(), " of sample ",
                   at / (targets.numel() / targets.size(0)), " is not one of ", one_hot, " classes, 0 to ",
                   one_hot - 1);
  }
  return at::one_hot(targets, one_hot).to(at::kFloat);
}

}  // namespace

Result<Dataset> load_dataset(const DataOptions& options) {
  if (options.one_hot < 0) return invalid("one_hot has to be a number of classes, not ", options.one_hot);
  const Result<Samples> samples = read_source(options);
  if (!samples.ok()) return samples.status();
  const Result<Dataset> selected = select_rows(*samples, options);
  if (!selected.ok()) return selected.status();
  Result<at::Tensor> inputs = computable(selected->inputs, "inputs");
  if (inputs.ok()) inputs = reshaped(*inputs, options.shape);
  if (inputs.ok()) inputs = scaled(*inputs, options);
  Result<at::Tensor> targets = computable(selected->targets, "targets");
  if (targets.ok()) targets = classes(*targets, options.one_hot);
  if (Status wrong = line_by_line(inputs.status(), targets.status()); !wrong.ok()) return wrong;
  return Dataset{*inputs, *targets};
}

at::Tensor rows_of(const at::Tensor& samples, std::span<const std::int64_t> rows) {
  at::Tensor index = at::empty({static_cast<std::int64_t>(rows.size())}, at::kLong);
  std::copy(rows.begin(), rows.end(), index.mutable_data_ptr<std::int64_t>());
  return samples.index_select(0, index);
}

Dataset batch(const Dataset& dataset, std::span<const std::int64_t> rows) {
  return {rows_of(dataset.inputs, rows), rows_of(dataset.targets, rows)};
}

}  // namespace ravnest::data
