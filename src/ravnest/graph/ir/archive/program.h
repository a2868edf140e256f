// An exported program (`models/model.json` of a `.pt2` archive) to and from a Graph.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest {
class Field;
}

namespace ravnest::ir {

// The schema that we read and write: torch 2.13's, and 2.11's, which differs in its minor number only.
inline constexpr int kSchemaMajor = 8;
inline constexpr int kSchemaMinor = 20;

// A `with torch.autocast(...)` block: a call with settings, the block's graph and what that is given.
inline constexpr std::string_view kAutocastTarget = "torch.ops.higher_order.wrap_with_autocast";
inline constexpr std::size_t kAutocastSettings = 5;

// The graph is checked (verify.h). Metadata assertions are dropped: they would tie the graph to the device that it
// was captured on. The operators of autocast blocks become operators of the graph, marked with their block; encoding
// makes blocks of them again. Writes to buffers that a functionalised program returns as outputs become copies into
// them.
Result<Graph> decode_program(const nlohmann::json& program, std::string_view what);

nlohmann::json encode_program(const Graph& graph);

// One size, as tensors' metadata has it.
nlohmann::json size_to_json(const Size& size);
nlohmann::json tensor_meta_to_json(const TensorMeta& meta);

// Throws DecodeError.
TensorMeta tensor_meta_from_json(const Field& field);

}  // namespace ravnest::ir
