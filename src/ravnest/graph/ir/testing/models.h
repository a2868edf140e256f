// Small models for tests, put together by hand, and ways to damage and compare them. Not part of any library.
#pragma once

#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ravnest/archive/testing/payloads.h"
#include "ravnest/base/bytes.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/archive/program.h"
#include "ravnest/graph/ir/expression.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/ir/tree_spec.h"

namespace ravnest::ir::testing {

// tests/golden/NAME.pt2
std::filesystem::path golden(std::string_view name);

using Sizes = std::vector<Size>;

inline Size fixed(std::int64_t size) { return {size, ""}; }
// A dynamic size, by the name of its symbol.
inline Size dynamic(std::string_view symbol, std::int64_t hint = 4) { return {hint, symbol_text(symbol)}; }

inline TensorMeta meta_of(const Sizes& sizes, DType dtype = DType::kFloat32) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.sizes = sizes;
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    meta.strides.insert(meta.strides.begin(), fixed(stride));
    stride *= sizes[i].hint;
  }
  return meta;
}

// One graph, which serves for training and eval. Values are made in the order of the calls.
class ModelBuilder {
 public:
  Ref parameter(const std::string& name, const std::vector<std::int64_t>& sizes, std::vector<float> values) {
    archive::Payload payload = archive::testing::float_payload(sizes, std::move(values));
    payload.is_parameter = payload.requires_grad = true;
    return parameter(name, std::move(payload));
  }
  Ref parameter(const std::string& name, archive::Payload payload) {
    return stored(InputKind::kParameter, name, std::move(payload), true);
  }
  Ref buffer(const std::string& name, archive::Payload payload, bool persistent = true) {
    return stored(InputKind::kBuffer, name, std::move(payload), persistent);
  }
  Ref constant(const std::string& name, archive::Payload payload) {
    return stored(InputKind::kConstant, name, std::move(payload), true);
  }
  Ref input(const std::string& name, const Sizes& sizes, DType dtype = DType::kFloat32) {
    const Ref value = tensor(name, sizes, dtype);
    users_.push_back({InputKind::kUser, value.value, "", true, {}});
    model_.train.argument_names.push_back(name);
    return value;
  }
  void fixed_input(const std::string& name, Argument value) {
    users_.push_back({InputKind::kFixed, -1, name, true, std::move(value)});
    model_.train.argument_names.push_back(name);
  }

  // A call that returns one tensor; the name of the result is the operator's.
  Ref call(const std::string& name, const std::string& target, std::vector<NamedArgument> inputs, const Sizes& sizes,
           DType dtype = DType::kFloat32) {
    const Ref result = tensor(name, sizes, dtype);
    add(name, target, std::move(inputs), {result});
    return result;
  }
  // A call that returns a number: arithmetic on sizes.
  Ref number(const std::string& name, const std::string& target, std::vector<NamedArgument> inputs, const Size& size) {
    model_.train.values.push_back({name, ValueKind::kSymInt, {}, size.expression, static_cast<double>(size.hint)});
    const Ref result{last()};
    add(name, target, std::move(inputs), {result});
    return result;
  }
  Operator& add(const std::string& name, const std::string& target, std::vector<NamedArgument> inputs,
                std::vector<Argument> outputs) {
    const auto place = static_cast<std::int32_t>(model_.train.operators.size());
    model_.train.operators.push_back({name, target, std::move(inputs), std::move(outputs), "", place});
    return model_.train.operators.back();
  }
  Ref tensor(const std::string& name, const Sizes& sizes, DType dtype = DType::kFloat32) {
    model_.train.values.push_back({name, ValueKind::kTensor, meta_of(sizes, dtype), "", {}});
    return {last()};
  }

  Model returns(std::vector<Argument> outputs) {
    Graph& graph = model_.train;
    graph.inputs = stored_;
    graph.inputs.insert(graph.inputs.end(), users_.begin(), users_.end());
    graph.in_spec = to_text(positional_call(static_cast<int>(users_.size())));
    graph.out_spec = to_text(tuple_of(std::vector<TreeSpec>(outputs.size())));
    graph.outputs = std::move(outputs);
    model_.eval = graph;
    return std::move(model_);
  }

 private:
  ValueId last() const { return static_cast<ValueId>(model_.train.values.size() - 1); }

  Ref stored(InputKind kind, const std::string& name, archive::Payload payload, bool persistent) {
    TensorMeta meta;
    meta.dtype = payload.dtype;
    meta.requires_grad = payload.requires_grad;
    for (const std::int64_t size : payload.sizes) meta.sizes.push_back(fixed(size));
    for (const std::int64_t stride : payload.strides) meta.strides.push_back(fixed(stride));
    std::string value_name = (kind == InputKind::kParameter ? "p_" : "b_") + name;
    for (char& c : value_name) c = c == '.' ? '_' : c;
    model_.train.values.push_back({value_name, ValueKind::kTensor, std::move(meta), "", {}});
    const Ref value{last()};
    stored_.push_back({kind, value.value, name, persistent, {}});
    const bool is_weight = kind == InputKind::kParameter || (kind == InputKind::kBuffer && persistent);
    (is_weight ? model_.weights : model_.constants).emplace_back(name, std::move(payload));
    return value;
  }

  Model model_;
  std::vector<Input> stored_;
  std::vector<Input> users_;
};

inline Result<std::vector<std::byte>> bytes_of(const Model& model) {
  ByteWriter out;
  const Status status = write_archive(model, "model", [&](ByteSpan bytes) {
    out.bytes(bytes);
    return Status();
  });
  if (!status.ok()) return status;
  return out.take();
}

// The storages of the result keep the bytes alive.
inline Result<Model> read_back(std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return read_archive(*owner, owner, "archive");
}

inline std::string shown(const Routing& routing) {
  std::string result;
  for (const Source& source : routing.inputs) result += text(source.stage, ".", source.index, " ");
  for (const auto& consumers : routing.consumers) result += text("(", join(consumers), ") ");
  for (const auto& readers : routing.model_inputs) result += text("[", join(readers), "] ");
  result += join(routing.without_inputs);
  return result;
}

// Everything that an archive says but the tensors' bytes, as text that is equal for equal models.
inline std::string shown(const Model& model) {
  std::string result = text(encode_program(model.train).dump(1), encode_program(model.eval).dump(1));
  for (const Graph* graph : {&model.train, &model.eval}) {
    for (const Operator& op : graph->operators) result += text(op.place, " ");
    for (const Input& input : graph->inputs) result += text(input.target, " ");
  }
  result += text("\n", archive::testing::shown(model.weights), archive::testing::shown(model.constants));
  if (model.stage) {
    result += text("stage ", model.stage->index, " of ", model.stage->count, "\n", shown(model.stage->train), "\n",
                   shown(model.stage->eval), "\n");
    for (const auto& [name, stages] : model.stage->tied) result += text(name, " in ", join(stages), "\n");
  }
  return result;
}

// y = x * w + b, over a batch of any size.
inline Model affine(archive::Payload weight = archive::testing::float_payload({2}, {3, 4})) {
  ModelBuilder builder;
  weight.is_parameter = weight.requires_grad = true;
  const Sizes sizes = {dynamic("s0"), fixed(2)};
  const Ref w = builder.parameter("fc.w", std::move(weight));
  const Ref b = builder.buffer("fc.b", archive::testing::float_payload({2}, {5, 6}));
  const Ref x = builder.input("x", sizes);
  const Ref scaled = builder.call("mul", "torch.ops.aten.mul.Tensor", {{"self", x}, {"other", w}}, sizes);
  return builder.returns({builder.call("add", "torch.ops.aten.add.Tensor", {{"self", scaled}, {"other", b}}, sizes)});
}

// A model that only holds tensors: its weights by name, all parameters.
inline Model holder(const std::vector<std::pair<std::string, archive::Payload>>& weights) {
  ModelBuilder builder;
  const Ref x = builder.input("x", {fixed(1)});
  for (const auto& [name, payload] : weights) {
    archive::Payload parameter = payload;
    parameter.is_parameter = true;
    builder.parameter(name, std::move(parameter));
  }
  return builder.returns({x});
}

}  // namespace ravnest::ir::testing
