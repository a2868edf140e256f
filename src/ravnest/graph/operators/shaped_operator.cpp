#include "ravnest/graph/operators/shaped_operator.h"

#include "ravnest/graph/ir/verify.h"

namespace ravnest::graph {
namespace {

void append(std::vector<ir::ValueId>& values, const ir::Argument& argument) {
  ir::for_each_ref(argument, [&](const ir::Ref& ref) { values.push_back(ref.value); });
}

}  // namespace

ShapedOperator::ShapedOperator(const ir::Operator& op, const Shapes& shapes)
    : op_(op), shapes_(shapes), name_(op.target) {
  if (!name_.starts_with("torch.ops.")) return;
  name_ = name_.substr(0, name_.rfind('.'));
  name_ = name_.substr(name_.rfind('.') + 1);
  in_place_ = name_.size() > 1 && name_.ends_with('_') && !name_.ends_with("__");
  if (in_place_) name_.remove_suffix(1);
}

const ir::Argument* ShapedOperator::find(std::string_view argument) const {
  for (const ir::NamedArgument& input : op_.inputs) {
    if (input.name == argument) return &input.value;
  }
  return nullptr;
}

ir::ValueId ShapedOperator::value(std::string_view argument) const {
  const ir::Argument* found = find(argument);
  const auto* ref = found == nullptr ? nullptr : std::get_if<ir::Ref>(found);
  return ref == nullptr ? -1 : ref->value;
}

const Shape* ShapedOperator::input(std::string_view argument) const {
  const ir::ValueId found = value(argument);
  return found < 0 ? nullptr : &shapes_[found];
}

ir::ValueId ShapedOperator::first() const {
  const ir::ValueId input = value("input");
  return input >= 0 ? input : value("self");
}

std::vector<ir::ValueId> ShapedOperator::values(std::string_view argument) const {
  std::vector<ir::ValueId> result;
  if (const ir::Argument* found = find(argument)) append(result, *found);
  return result;
}

std::vector<ir::ValueId> ShapedOperator::inputs() const {
  std::vector<ir::ValueId> result;
  for (const ir::NamedArgument& input : op_.inputs) append(result, input.value);
  return result;
}

std::vector<ir::ValueId> ShapedOperator::outputs() const {
  std::vector<ir::ValueId> result;
  for (const ir::Argument& output : op_.outputs) append(result, output);
  return result;
}

const Shape& ShapedOperator::output() const {
  static const Shape kNothing;
  const std::vector<ir::ValueId> made = outputs();
  return made.empty() ? kNothing : shapes_[made.front()];
}

bool ShapedOperator::flag(std::string_view argument, bool otherwise) const {
  const ir::Argument* found = find(argument);
  const bool* value = found == nullptr ? nullptr : std::get_if<bool>(found);
  return value == nullptr ? otherwise : *value;
}

double ShapedOperator::number(std::string_view argument, double otherwise) const {
  const ir::Argument* found = find(argument);
  if (found == nullptr) return otherwise;
  if (const auto* whole = std::get_if<std::int64_t>(found)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(found)) return *real;
  return otherwise;
}

std::string_view ShapedOperator::text(std::string_view argument) const {
  const ir::Argument* found = find(argument);
  const auto* string = found == nullptr ? nullptr : std::get_if<std::string>(found);
  return string == nullptr ? std::string_view() : *string;
}

}  // namespace ravnest::graph
