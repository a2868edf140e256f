#include "ravnest/graph/operators/call.h"

#include "ravnest/graph/ir/verify.h"

namespace ravnest::graph {
namespace {

void append(std::vector<ir::ValueId>& values, const ir::Argument& argument) {
  ir::for_each_ref(argument, [&](const ir::Ref& ref) { values.push_back(ref.value); });
}

}  // namespace

Call::Call(const ir::Node& node, const Shapes& shapes) : node_(node), shapes_(shapes), name_(node.target) {
  if (!name_.starts_with("torch.ops.")) return;
  name_ = name_.substr(0, name_.rfind('.'));
  name_ = name_.substr(name_.rfind('.') + 1);
  in_place_ = name_.size() > 1 && name_.ends_with('_') && !name_.ends_with("__");
  if (in_place_) name_.remove_suffix(1);
}

const ir::Argument* Call::find(std::string_view argument) const {
  for (const ir::NamedArgument& input : node_.inputs) {
    if (input.name == argument) return &input.value;
  }
  return nullptr;
}

ir::ValueId Call::value(std::string_view argument) const {
  const ir::Argument* found = find(argument);
  const auto* ref = found == nullptr ? nullptr : std::get_if<ir::Ref>(found);
  return ref == nullptr ? -1 : ref->value;
}

const Shape* Call::input(std::string_view argument) const {
  const ir::ValueId found = value(argument);
  return found < 0 ? nullptr : &shapes_[found];
}

ir::ValueId Call::first() const {
  const ir::ValueId input = value("input");
  return input >= 0 ? input : value("self");
}

std::vector<ir::ValueId> Call::values(std::string_view argument) const {
  std::vector<ir::ValueId> result;
  if (const ir::Argument* found = find(argument)) append(result, *found);
  return result;
}

std::vector<ir::ValueId> Call::inputs() const {
  std::vector<ir::ValueId> result;
  for (const ir::NamedArgument& input : node_.inputs) append(result, input.value);
  return result;
}

std::vector<ir::ValueId> Call::outputs() const {
  std::vector<ir::ValueId> result;
  for (const ir::Argument& output : node_.outputs) append(result, output);
  return result;
}

const Shape& Call::output() const {
  static const Shape kNothing;
  const std::vector<ir::ValueId> made = outputs();
  return made.empty() ? kNothing : shapes_[made.front()];
}

bool Call::flag(std::string_view argument, bool otherwise) const {
  const ir::Argument* found = find(argument);
  const bool* value = found == nullptr ? nullptr : std::get_if<bool>(found);
  return value == nullptr ? otherwise : *value;
}

double Call::number(std::string_view argument, double otherwise) const {
  const ir::Argument* found = find(argument);
  if (found == nullptr) return otherwise;
  if (const auto* whole = std::get_if<std::int64_t>(found)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(found)) return *real;
  return otherwise;
}

std::string_view Call::text(std::string_view argument) const {
  const ir::Argument* found = find(argument);
  const auto* string = found == nullptr ? nullptr : std::get_if<std::string>(found);
  return string == nullptr ? std::string_view() : *string;
}

}  // namespace ravnest::graph
