#include "ravnest/graph/run/autocast.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <set>

#include "ravnest/graph/operators/tensors.h"

namespace ravnest::graph {
namespace {

Result<c10::DeviceType> device_type_of(const std::string& name) {
  for (const c10::DeviceType type : at::autocast::_AUTOCAST_SUPPORTED_DEVICES) {
    if (c10::DeviceTypeName(type, true) == name) return type;
  }
  return unsupported("torch.autocast for \"", name, "\": this build of torch has no such device");
}

}  // namespace

Result<std::vector<AutocastBlock>> resolve_autocasts(const ir::Graph& graph, c10::Device device) {
  std::vector<AutocastBlock> blocks;
  if (graph.autocasts.empty()) return blocks;
  std::set<std::string> captured_on;
  for (const ir::Value& value : graph.values) {
    if (value.kind == ir::ValueKind::kTensor) captured_on.insert(value.tensor.device.type);
  }
  for (const ir::Autocast& block : graph.autocasts) {
    Result<c10::DeviceType> type = device_type_of(block.device_type);
    if (!type.ok()) return type.status();
    if (captured_on.contains(block.device_type)) type = device.type();
    if (!at::autocast::is_autocast_available(*type))
      return unsupported("torch has no autocast for ", c10::DeviceTypeName(*type, true), " tensors");
    if (block.enabled && block.dtype != DType::kBFloat16 && block.dtype != DType::kFloat16)
      return unsupported("torch.autocast to ", dtype_name(block.dtype), "; torch casts to bfloat16 or float16");
    blocks.push_back({*type, to_torch(block.dtype), block.enabled, block.cache, block.parent});
  }
  return blocks;
}

AutocastPosition::~AutocastPosition() {
  while (!entered_.empty()) leave();
}

bool AutocastPosition::lies_in(std::int32_t block, std::int32_t around) const {
  while (block != around && block >= 0) block = blocks_[block].parent;
  return block == around;
}

void AutocastPosition::move_to(std::int32_t block) {
  while (!lies_in(block, this->block())) leave();
  std::vector<std::int32_t> way;
  for (std::int32_t each = block; each != this->block(); each = blocks_[each].parent) way.push_back(each);
  for (auto each = way.rbegin(); each != way.rend(); ++each) enter(*each);
}

void AutocastPosition::enter(std::int32_t index) {
  const AutocastBlock& block = blocks_[index];
  entered_.push_back({index, at::autocast::is_autocast_enabled(block.device_type),
                      at::autocast::get_autocast_dtype(block.device_type), at::autocast::is_autocast_cache_enabled()});
  at::autocast::set_autocast_enabled(block.device_type, block.enabled);
  at::autocast::set_autocast_dtype(block.device_type, block.dtype);
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(block.cache);
}

void AutocastPosition::leave() {
  const Entered before = entered_.back();
  entered_.pop_back();
  const c10::DeviceType type = blocks_[before.block].device_type;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type, before.enabled);
  at::autocast::set_autocast_dtype(type, before.dtype);
  at::autocast::set_autocast_cache_enabled(before.cache);
}

void hide_from_cast_cache(std::vector<c10::IValue>& inputs, const std::vector<ir::Source>& sources) {
  const std::size_t count = std::min(inputs.size(), sources.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (sources[i].stage < 0 || !inputs[i].isTensor()) continue;
    const at::Tensor& tensor = inputs[i].toTensor();
    if (tensor.is_leaf() && tensor.requires_grad()) inputs[i] = at::alias(tensor);
  }
}

}  // namespace ravnest::graph
