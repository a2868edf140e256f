// What a TorchScript value is while a graph is recorded from it: the value itself, on the example, and for tensors and
// numbers also the value of the recorded graph that it stands for. Private to the front ends.
#pragma once

#include <ATen/core/class_type.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph::script {

// Thrown inside the front ends for what they cannot turn into a graph; their borders return its Status.
struct Refusal {
  Status status;
  bool placed = false;   // says already which node of the script it is about
  bool decides = false;  // it is a decision by a tensor's value
};

// What an exception says, without torch's backtrace.
std::string message_of(const std::exception& error);

struct Object;

enum class ItemKind : std::uint8_t { kPlain, kNumber, kTensor, kList, kTuple, kDict, kObject };

struct Item {
  ItemKind kind = ItemKind::kPlain;
  c10::IValue value = {};  // kPlain (None, a string, a device, ...), kNumber, kTensor
  ir::ValueId id = -1;     // kNumber, kTensor: in the graph; -1: a constant
  bool data = false;       // kNumber: read out of a tensor, so that no graph can know it
  // kList, kTuple; kDict: key, value, key, value. Shared, since TorchScript's lists and dicts are references.
  std::shared_ptr<std::vector<Item>> items = nullptr;
  std::shared_ptr<Object> object = nullptr;  // kObject

  bool is_none() const { return kind == ItemKind::kPlain && value.isNone(); }
};

// A module, or an object of a class that the script itself defines.
struct Object {
  c10::ClassTypePtr type;
  c10::intrusive_ptr<c10::ivalue::Object> origin;  // nullptr: made by the script
  std::string path;                                // of a module, from the root: "encoder.layers.0"
  std::map<std::string, Item> attributes;          // those read or written so far
};

Item plain(c10::IValue value);
Item number(c10::IValue value, ir::ValueId id = -1);
Item tensor(at::Tensor value, ir::ValueId id = -1);
Item sequence(ItemKind kind, std::vector<Item> items);

// `leaf` makes the item of each tensor and object inside.
Item from_ivalue(const c10::IValue& value, const std::function<Item(const c10::IValue&)>& leaf);
Item from_constant(const c10::IValue& value);

// The value on the example, as `type` asks; objects that the script made have none and are refused.
c10::IValue to_ivalue(const Item& item, const c10::TypePtr& type);

// Calls `visit` for every number and tensor inside.
void for_each_leaf(Item& item, const std::function<void(Item&)>& visit);

}  // namespace ravnest::graph::script
