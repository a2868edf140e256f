#include "ravnest/graph/ir/graph.h"

#include <algorithm>

namespace ravnest::ir {

// nn_module_stack is "key,path,type;key,path,type;...", outermost first; in the path, a repeated call has "@n" behind.
std::string module_path(const Operator& op) {
  const std::string& stack = op.module_stack;
  const std::size_t last = stack.rfind(';');
  const std::size_t entry = last == std::string::npos ? 0 : last + 1;
  const std::size_t first_comma = stack.find(',', entry);
  if (first_comma == std::string::npos) return {};
  const std::size_t second_comma = stack.find(',', first_comma + 1);
  if (second_comma == std::string::npos) return {};
  std::string path = stack.substr(first_comma + 1, second_comma - first_comma - 1);
  if (path.starts_with("_empty_nn_module_stack")) return {};
  return path.substr(0, path.find('@'));
}

const archive::Payload* find_payload(const Model& model, const std::string& name, InputKind kind, bool persistent) {
  const bool is_weight = kind == InputKind::kParameter || (kind == InputKind::kBuffer && persistent);
  const archive::NamedPayloads& list = is_weight ? model.weights : model.constants;
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
  return found == list.end() ? nullptr : &found->second;
}

}  // namespace ravnest::ir
