#include "ravnest/graph/operators/operators.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <set>

#include "ravnest/graph/ir/verify.h"
#include "ravnest/graph/operators/size_operators.h"

namespace ravnest::graph {
namespace {

constexpr std::string_view kPrefix = "torch.ops.";

std::vector<ir::ValueId> values_of(const ir::Argument& argument) {
  std::vector<ir::ValueId> values;
  ir::for_each_ref(argument, [&](ir::Ref ref) { values.push_back(ref.value); });
  return values;
}

// A list's members have their own alias sets, below those of the list: split returns Tensor(a)[].
void collect_sets(const c10::AliasInfo& info, std::set<c10::Symbol>& sets) {
  sets.insert(info.beforeSets().begin(), info.beforeSets().end());
  sets.insert(info.afterSets().begin(), info.afterSets().end());
  for (const c10::AliasInfo& member : info.containedTypes()) collect_sets(member, sets);
}

bool share_memory(const c10::Argument& input, const c10::Argument& output) {
  if (input.alias_info() == nullptr || output.alias_info() == nullptr) return false;
  std::set<c10::Symbol> in;
  std::set<c10::Symbol> out;
  collect_sets(*input.alias_info(), in);
  collect_sets(*output.alias_info(), out);
  if (out.contains(c10::AliasInfo::wildcardSet())) return !in.empty();
  return std::any_of(in.begin(), in.end(), [&](const c10::Symbol& set) { return out.contains(set); });
}

bool is_written(const c10::AliasInfo& info) {
  return info.isWrite() || std::any_of(info.containedTypes().begin(), info.containedTypes().end(), is_written);
}

// Normalisation with running statistics updates them in training without saying so in its schema.
bool updates_statistics(const ir::Operator& op) {
  for (const char* flag : {"training", "use_input_stats"}) {
    const ir::Argument* argument = find_argument(op, flag);
    if (argument != nullptr && find_argument(op, "running_mean") != nullptr) {
      const bool* value = std::get_if<bool>(argument);
      return value == nullptr || *value;
    }
  }
  return false;
}

// The outputs in the order of the schema's returns, whether one list or several tensors.
std::vector<ir::ValueId> outputs_of(const ir::Operator& op, std::size_t position) {
  return position < op.outputs.size() ? values_of(op.outputs[position]) : std::vector<ir::ValueId>();
}

}  // namespace

bool is_size_operator(const std::string& target) { return find_size_operator(target) != nullptr; }

const ir::Argument* find_argument(const ir::Operator& op, const std::string& name) {
  const auto found = std::find_if(op.inputs.begin(), op.inputs.end(),
                                  [&](const ir::NamedArgument& input) { return input.name == name; });
  return found == op.inputs.end() ? nullptr : &found->value;
}

Result<c10::OperatorHandle> find_operator(const std::string& target) {
  const Status unknown = unsupported("operator ", target, " is not known to this build of torch");
  if (!target.starts_with(kPrefix)) return unknown;
  const std::size_t name = kPrefix.size();
  const std::size_t dot = target.find('.', name);
  const std::size_t last = target.rfind('.');
  if (dot == std::string::npos || last == dot) return unknown;
  const std::string full = target.substr(name, dot - name) + "::" + target.substr(dot + 1, last - dot - 1);
  const std::string overload = target.substr(last + 1);
  const auto handle = c10::Dispatcher::singleton().findSchema({full, overload == "default" ? std::string() : overload});
  if (handle) return *handle;
  const std::string library = library_of(target);
  if (library.empty()) return unknown;
  return unsupported("operator ", target, " belongs to the library \"", library,
                     "\", which this process has not loaded: a Python script must import it before it uses the model");
}

std::string library_of(const std::string& target) {
  if (!target.starts_with(kPrefix)) return {};
  const std::size_t dot = target.find('.', kPrefix.size());
  std::string library = target.substr(kPrefix.size(), dot - kPrefix.size());
  return library == "aten" || library == "prims" || library == "prim" ? std::string() : library;
}

Result<Effects> effects_of(const ir::Operator& op) {
  Effects effects;
  if (is_size_operator(op.target)) return effects;
  const Result<c10::OperatorHandle> handle = find_operator(op.target);
  if (!handle.ok()) return handle.status();
  const c10::FunctionSchema& schema = handle->schema();
  effects.random = handle->hasTag(at::Tag::nondeterministic_seeded);
  // Batch normalisation has the tag for its writes (updates_statistics); its result is always its own.
  const bool silently_aliasing =
      (handle->hasTag(at::Tag::maybe_aliasing_or_mutating) && schema.name().find("batch_norm") == std::string::npos) ||
      schema.name() == "aten::type_as";
  for (const c10::Argument& declared : schema.arguments()) {
    const ir::Argument* given = find_argument(op, declared.name());
    if (given == nullptr) continue;
    const std::vector<ir::ValueId> inputs = values_of(*given);
    if (declared.alias_info() != nullptr && is_written(*declared.alias_info()))
      effects.writes.insert(effects.writes.end(), inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < schema.returns().size(); ++i) {
      if (!silently_aliasing && !share_memory(declared, schema.returns()[i])) continue;
      for (const ir::ValueId output : outputs_of(op, i))
        for (const ir::ValueId input : inputs) effects.aliases.emplace_back(output, input);
    }
  }
  if (updates_statistics(op)) {
    for (const char* name : {"running_mean", "running_var"}) {
      const ir::Argument* statistics = find_argument(op, name);
      if (statistics == nullptr) continue;
      for (const ir::ValueId value : values_of(*statistics)) effects.writes.push_back(value);
    }
  }
  return effects;
}

}  // namespace ravnest::graph
