#include "ravnest/graph/ir/archive/blocks.h"

#include "ravnest/graph/ir/verify.h"

namespace ravnest::ir {
namespace {

template <class Visit>
void for_each_read(const Operator& op, Visit&& visit) {
  for (const NamedArgument& input : op.inputs) for_each_ref(input.value, visit);
}

template <class Visit>
void for_each_made(const Operator& op, Visit&& visit) {
  for (const Argument& output : op.outputs) for_each_ref(output, visit);
}

// Each value once, in the order that they come in.
class Collected {
 public:
  void add(ValueId value) {
    if (seen_.insert(value).second) values_.push_back(value);
  }
  std::vector<ValueId> take() { return std::move(values_); }

 private:
  std::set<ValueId> seen_;
  std::vector<ValueId> values_;
};

}  // namespace

Blocks::Blocks(const Graph& graph)
    : graph_(graph), made_at_(graph.values.size(), 0), last_read_(graph.values.size(), 0) {
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    for_each_read(graph.operators[i], [&](Ref ref) { last_read_[ref.value] = i + 1; });
    for_each_made(graph.operators[i], [&](Ref ref) { made_at_[ref.value] = i + 1; });
  }
  for (const Argument& output : graph.outputs)
    for_each_ref(output, [&](Ref ref) { last_read_[ref.value] = graph.operators.size() + 1; });
}

std::int32_t Blocks::child(std::int32_t around, std::int32_t block) const {
  if (block == around) return -1;
  while (graph_.autocasts[block].parent != around) block = graph_.autocasts[block].parent;
  return block;
}

std::vector<ValueId> Blocks::operands(const BlockPart& part) const {
  Collected collected;
  for (std::size_t i = part.begin; i < part.end; ++i) {
    for_each_read(graph_.operators[i], [&](Ref ref) {
      if (made_at_[ref.value] <= part.begin) collected.add(ref.value);
    });
  }
  return collected.take();
}

std::vector<ValueId> Blocks::results(const BlockPart& part) const {
  Collected collected;
  for (std::size_t i = part.begin; i < part.end; ++i) {
    for_each_made(graph_.operators[i], [&](Ref ref) {
      if (last_read_[ref.value] > part.end) collected.add(ref.value);
    });
  }
  return collected.take();
}

std::vector<ValueId> Blocks::values(const BlockPart& part) const {
  Collected collected;
  const auto add = [&](Ref ref) { collected.add(ref.value); };
  for_each(
      part,
      [&](const Operator& op) {
        for_each_read(op, add);
        for_each_made(op, add);
      },
      [&](const BlockPart& inner) {
        for (const ValueId value : operands(inner)) collected.add(value);
        for (const ValueId value : results(inner)) collected.add(value);
      });
  return collected.take();
}

std::vector<bool> Blocks::hidden() const {
  std::vector<bool> hidden(graph_.values.size(), false);
  for_each(
      {-1, 0, graph_.operators.size()}, [](const Operator&) {},
      [&](const BlockPart& part) {
        for (std::size_t i = part.begin; i < part.end; ++i)
          for_each_made(graph_.operators[i], [&](Ref ref) { hidden[ref.value] = last_read_[ref.value] <= part.end; });
      });
  return hidden;
}

}  // namespace ravnest::ir
