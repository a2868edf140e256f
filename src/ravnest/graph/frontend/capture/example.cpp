#include "ravnest/graph/frontend/capture/example.h"

#include <ATen/ATen.h>

#include "ravnest/graph/frontend/script/arguments.h"
#include "ravnest/graph/ir/tree_spec.h"

namespace ravnest::graph::script {
namespace {

// Calls `visit(name, leaf)` for each leaf in order; what it returns stands in the item that comes out.
using Visit = std::function<Item(const std::string& name, const c10::IValue& leaf)>;

Item walk(const std::string& name, const c10::IValue& value, const Visit& visit) {
  std::vector<Item> items;
  if (value.isList()) {
    for (const c10::IValue& each : value.toListRef()) items.push_back(walk(text(name, "_", items.size()), each, visit));
    return sequence(ItemKind::kList, std::move(items));
  }
  if (value.isTuple()) {
    for (const c10::IValue& each : value.toTupleRef().elements())
      items.push_back(walk(text(name, "_", items.size()), each, visit));
    return sequence(ItemKind::kTuple, std::move(items));
  }
  if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      const std::string key = entry.key().isString() ? entry.key().toStringRef() : std::string("key");
      items.push_back(plain(entry.key()));
      items.push_back(walk(text(name, "_", key), entry.value(), visit));
    }
    return sequence(ItemKind::kDict, std::move(items));
  }
  return visit(name, value);
}

ir::TreeSpec spec_of(const Item& item) {
  std::vector<ir::TreeSpec> children;
  const bool dict = item.kind == ItemKind::kDict;
  for (std::size_t i = dict ? 1 : 0; item.items != nullptr && i < item.items->size(); i += dict ? 2 : 1)
    children.push_back(spec_of((*item.items)[i]));
  switch (item.kind) {
    case ItemKind::kList: return {"builtins.list", "null", std::move(children)};
    case ItemKind::kTuple: return ir::tuple_of(std::move(children));
    case ItemKind::kDict: return {"builtins.dict", dict_context(item), std::move(children)};
    default: return {};
  }
}

c10::IValue rebuild(const c10::IValue& value, const Leaves& leaves, std::size_t& next) {
  if (value.isList()) {
    c10::impl::GenericList list(value.toList().elementType());
    for (const c10::IValue& each : value.toListRef()) list.push_back(rebuild(each, leaves, next));
    return list;
  }
  if (value.isTuple()) {
    std::vector<c10::IValue> values;
    for (const c10::IValue& each : value.toTupleRef().elements()) values.push_back(rebuild(each, leaves, next));
    return c10::ivalue::Tuple::create(std::move(values));
  }
  if (value.isGenericDict()) {
    const auto given = value.toGenericDict();
    c10::impl::GenericDict dict(given.keyType(), given.valueType());
    for (const auto& entry : given) dict.insert(entry.key(), rebuild(entry.value(), leaves, next));
    return dict;
  }
  return leaves[next++];
}

bool has_rows(const c10::IValue& leaf) {
  return leaf.isTensor() && leaf.toTensor().defined() && leaf.toTensor().dim() > 0;
}

}  // namespace

Example make_example(std::vector<c10::IValue> arguments, std::vector<std::string> names) {
  Example example;
  example.arguments = std::move(arguments);
  example.argument_names = std::move(names);
  std::vector<ir::TreeSpec> specs;
  for (std::size_t i = 0; i < example.arguments.size(); ++i) {
    const Item item =
        walk(example.argument_names[i], example.arguments[i], [&](const std::string& name, const c10::IValue& leaf) {
          example.leaves.push_back(leaf);
          example.leaf_names.push_back(name);
          return plain({});
        });
    specs.push_back(spec_of(item));
  }
  example.in_spec =
      ir::to_text(ir::tuple_of({ir::tuple_of(std::move(specs)), ir::TreeSpec{"builtins.dict", "[]", {}}}));
  return example;
}

std::vector<c10::IValue> arguments_with(const Example& example, const Leaves& leaves) {
  std::vector<c10::IValue> arguments;
  std::size_t next = 0;
  for (const c10::IValue& argument : example.arguments) arguments.push_back(rebuild(argument, leaves, next));
  return arguments;
}

std::vector<Item> record_inputs(const Example& example, const Leaves& leaves, Recorder& recorder) {
  std::vector<Item> items;
  std::size_t next = 0;
  for (const c10::IValue& argument : example.arguments) {
    items.push_back(walk("", argument, [&](const std::string&, const c10::IValue&) {
      const std::size_t i = next++;
      return recorder.input(example.leaf_names[i], leaves[i]);
    }));
  }
  return items;
}

Leaves flatten(const c10::IValue& value) {
  Leaves leaves;
  walk("", value, [&](const std::string&, const c10::IValue& leaf) {
    leaves.push_back(leaf);
    return Item{};
  });
  return leaves;
}

BatchedLeaves find_batch(const Example& example) {
  BatchedLeaves batch;
  for (std::size_t i = 0; i < example.leaves.size(); ++i) {
    if (!has_rows(example.leaves[i])) continue;
    const std::int64_t rows = example.leaves[i].toTensor().size(0);
    if (batch.leaves.empty()) batch.size = rows;
    if (rows == batch.size) batch.leaves.push_back(i);
  }
  return batch;
}

Leaves leaves_at(const Example& example, const BatchedLeaves& batch, std::int64_t size) {
  Leaves leaves = example.leaves;
  for (c10::IValue& leaf : leaves) {
    if (leaf.isTensor() && leaf.toTensor().defined())
      leaf = leaf.toTensor().detach().clone().set_requires_grad(leaf.toTensor().requires_grad());
  }
  if (size == batch.size || batch.size == 0) return leaves;
  for (const std::size_t i : batch.leaves) {
    const at::Tensor given = leaves[i].toTensor();
    const at::Tensor rows = at::arange(size, at::TensorOptions().dtype(at::kLong).device(given.device()));
    leaves[i] = given.detach().index_select(0, rows.remainder(batch.size)).set_requires_grad(given.requires_grad());
  }
  return leaves;
}

}  // namespace ravnest::graph::script
