// The names that one graph of an exported program gives to values, and the arguments that are written with them.
//
// A program is a graph with graphs inside of it (blocks), each with names of its own; a Graph has one list of values.
// Private to the decoder. Throws DecodeError.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ravnest/base/json_field.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

class Names {
 public:
  // `values` may grow afterwards, and must outlive this.
  explicit Names(const std::vector<Value>& values) : values_(values) {}

  // False where the name is taken already.
  bool bind(const std::string& name, ValueId value) { return ids_.emplace(name, value).second; }
  void rebind(const std::string& name, ValueId value) { ids_[name] = value; }
  std::optional<ValueId> find(const std::string& name) const;

  Argument argument(const Field& field) const;
  Ref tensor(const Field& field) const { return named(field["name"], ValueKind::kTensor); }

 private:
  Ref named(const Field& name, ValueKind kind) const;
  IntOrRef int_or_ref(const Field& field) const;
  Argument symbol(const Field& field, ValueKind kind) const;
  std::optional<Ref> optional_tensor(const Field& field) const;
  Argument list_argument(const std::string& tag, const Field& value) const;

  const std::vector<Value>& values_;
  std::unordered_map<std::string, ValueId> ids_;
};

// The name in {"as_tensor": {"name": ...}} or {"as_sym_int": {"as_name": ...}}; nothing for any other argument.
std::optional<std::string> name_in(const Field& argument);

}  // namespace ravnest::ir
