#include "ravnest/graph/ir/graph.h"

#include <algorithm>

namespace ravnest::ir {

// nn_module_stack is "key,path,type;key,path,type;...", outermost first; in the path, a repeated call has "@n" behind.
std::string module_path(const Node& node) {
  const std::string& stack = node.module_stack;
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

std::int64_t element_count(const Payload& payload) {
  std::int64_t count = 1;
  for (const std::int64_t size : payload.sizes) count *= size;
  return count;
}

bool is_contiguous(const Payload& payload) {
  if (element_count(payload) == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = payload.sizes.size(); i-- > 0;) {
    if (payload.sizes[i] != 1 && payload.strides[i] != expected) return false;
    expected *= payload.sizes[i];
  }
  return true;
}

bool same_tensor(const Payload& a, const Payload& b) {
  return a.storage == b.storage && a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides &&
         a.storage_offset == b.storage_offset && element_count(a) > 0;
}

const Payload* find_payload(const Model& model, const std::string& name, InputKind kind, bool persistent) {
  const bool is_weight = kind == InputKind::kParameter || (kind == InputKind::kBuffer && persistent);
  const NamedPayloads& list = is_weight ? model.weights : model.constants;
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
  return found == list.end() ? nullptr : &found->second;
}

}  // namespace ravnest::ir
