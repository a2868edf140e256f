#include <algorithm>
#include <map>
#include <set>

#include "ravnest/graph/frontend/capture/affine.h"
#include "ravnest/graph/frontend/capture/sizes.h"
#include "ravnest/graph/ir/verify.h"
#include "ravnest/graph/operators/size_operators.h"

namespace ravnest::graph::script {
namespace {

constexpr std::int64_t kEverySizeUpTo = 4096;  // beyond it, powers of two stand for the rest
constexpr std::int64_t kLargest = std::int64_t{1} << 31;

double as_real(const c10::IValue& value) {
  if (value.isBool()) return value.toBool() ? 1 : 0;
  return value.isDouble() ? value.toDouble() : static_cast<double>(value.toInt());
}

// Computes the numbers of a recording at any batch size.
class NumberReader {
 public:
  NumberReader(const ir::Graph& graph, const Runs& runs)
      : graph_(graph), runs_(runs), made_by_(graph.values.size(), -1) {
    for (std::size_t i = 0; i < graph.operators.size(); ++i)
      for (const ir::Argument& output : graph.operators[i].outputs)
        ir::for_each_ref(output, [&](ir::Ref ref) { made_by_[ref.value] = static_cast<int>(i); });
  }

  // Nothing where it cannot be known.
  std::optional<c10::IValue> at(ir::ValueId value, std::int64_t batch) {
    memory_.clear();
    return compute(value, batch);
  }

  bool varies(ir::ValueId value) {
    const auto known = varying_.find(value);
    if (known != varying_.end()) return known->second;
    bool result = false;
    const ir::Operator& op = graph_.operators[made_by_[value]];
    if (const auto line = size_line(op)) {
      result = !*line || !(*line)->constant();
    } else {
      for (const ir::NamedArgument& input : op.inputs)
        ir::for_each_ref(input.value, [&](ir::Ref ref) { result = result || varies(ref.value); });
    }
    varying_[value] = result;
    return result;
  }

 private:
  // For an operator that reads a size: its line, or nothing inside where there is none.
  std::optional<std::optional<Affine>> size_line(const ir::Operator& op) const {
    if (op.target != "torch.ops.aten.sym_size.int") return std::nullopt;
    const ir::ValueId tensor = std::get<ir::Ref>(op.inputs[0].value).value;
    const auto dimension = static_cast<std::size_t>(std::get<std::int64_t>(op.inputs[1].value));
    std::vector<std::int64_t> sizes;
    for (const std::vector<Seen>& seen : runs_.seen) {
      if (dimension >= seen[tensor].sizes.size()) return std::optional<Affine>();
      sizes.push_back(seen[tensor].sizes[dimension]);
    }
    return fit(runs_.batches, sizes);
  }

  std::optional<c10::IValue> compute(ir::ValueId value, std::int64_t batch) {
    const auto known = memory_.find(value);
    if (known != memory_.end()) return known->second;
    const ir::Operator& op = graph_.operators[made_by_[value]];
    std::optional<c10::IValue> result;
    if (const auto line = size_line(op)) {
      if (*line) result = (*line)->at(batch);
    } else if (const SizeOperator* operation = find_size_operator(op.target)) {
      std::vector<c10::IValue> arguments;
      for (const ir::NamedArgument& input : op.inputs) {
        if (const auto* ref = std::get_if<ir::Ref>(&input.value)) {
          const std::optional<c10::IValue> argument = compute(ref->value, batch);
          if (!argument) return std::nullopt;
          arguments.push_back(*argument);
        } else if (const auto* flag = std::get_if<bool>(&input.value)) {
          arguments.emplace_back(*flag);
        } else if (const auto* integer = std::get_if<std::int64_t>(&input.value)) {
          arguments.emplace_back(*integer);
        } else {
          arguments.emplace_back(std::get<double>(input.value));
        }
      }
      result = operation->call(arguments);
    }
    if (result) memory_[value] = *result;
    return result;
  }

  const ir::Graph& graph_;
  const Runs& runs_;
  std::vector<int> made_by_;
  std::map<ir::ValueId, c10::IValue> memory_;
  std::map<ir::ValueId, bool> varying_;
};

}  // namespace

Result<ir::SymbolRange> guarded_range(const Recording& recording, const Runs& runs) {
  NumberReader numbers(recording.graph, runs);
  std::vector<Guard> guards;
  std::set<std::pair<ir::ValueId, double>> known;
  for (const Guard& guard : recording.guards) {
    if (numbers.varies(guard.number) && known.emplace(guard.number, as_real(guard.expected)).second)
      guards.push_back(guard);
  }
  const auto holds = [&](std::int64_t batch) {
    return std::all_of(guards.begin(), guards.end(), [&](const Guard& guard) {
      try {
        const std::optional<c10::IValue> value = numbers.at(guard.number, batch);
        return value && as_real(*value) == as_real(guard.expected);
      } catch (const c10::Error&) {  // a division by zero, say
        return false;
      }
    });
  };
  // Export counts 0 and 1 as special sizes, so that 2 stands for "no limit below".
  ir::SymbolRange range{2, std::nullopt};
  if (guards.empty()) return range;
  const std::int64_t captured = runs.batches.front();
  std::int64_t lowest = captured;
  while (lowest > 1 && holds(lowest - 1)) --lowest;
  std::int64_t highest = captured;
  const auto next = [](std::int64_t batch) { return batch < kEverySizeUpTo ? batch + 1 : batch * 2; };
  while (highest <= kLargest && holds(next(highest))) highest = next(highest);
  if (!holds(captured) || lowest == highest)
    return invalid("the model takes another path at every other batch size than ", captured);
  range.min = std::max<std::int64_t>(lowest, 2);
  if (highest <= kLargest) range.max = highest;
  return range;
}

}  // namespace ravnest::graph::script
