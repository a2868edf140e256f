// Any text as a program, a size expression and a tree spec: decoded or refused, and stable under encoding.
#include <iostream>

#include "ravnest/base/json.h"
#include "ravnest/base/testing/fuzz_json.h"
#include "ravnest/graph/ir/archive/program.h"
#include "ravnest/graph/ir/archive/sample_inputs.h"
#include "ravnest/graph/ir/expression.h"
#include "ravnest/graph/ir/tree_spec.h"
#include "ravnest/graph/ir/verify.h"

namespace {

using namespace ravnest;
using namespace ravnest::ir;
using fuzzing::require;

void try_program(std::string_view text) {
  const Result<nlohmann::json> document = parse_json(text, "program");
  if (!document.ok()) return;
  const Result<Graph> graph = decode_program(*document, "program");
  if (!graph.ok()) {
    require(!graph.status().message().empty(), "a refusal says why");
    return;
  }
  require(check(*graph).ok(), "what is decoded is well formed");
  const nlohmann::json encoded = encode_program(*graph);
  const Result<nlohmann::json> parsed = parse_json(encoded.dump(), "encoded");
  require(parsed.ok(), "what we encode is JSON");
  const Result<Graph> again = decode_program(*parsed, "encoded");
  if (!again.ok()) std::cerr << again.status() << "\n";
  require(again.ok(), "what we encode can be decoded");
  require(encode_program(*again).dump() == encoded.dump(), "encoding is stable");
  static_cast<void>(sample_inputs(*graph).ok());
  fuzzing::accepted().remember(text);
}

void try_expression(std::string_view text) {
  const Size size{1, std::string(text)};
  static_cast<void>(bare_symbol(size));
  static_cast<void>(evaluate(size, {{"s0", 4}, {"s1", -3}, {"a", 0}}).ok());
}

void try_tree_spec(std::string_view text) {
  const Result<TreeSpec> spec = parse_tree_spec(text);
  if (!spec.ok()) return;
  const Result<TreeSpec> again = parse_tree_spec(to_text(*spec));
  require(again.ok() && to_text(*again) == to_text(*spec), "a tree spec comes through text unchanged");
  require(leaf_count(*again) == leaf_count(*spec), "and with as many leaves");
}

std::string changed(const std::string& text, fuzzing::Random& random) {
  const Result<nlohmann::json> document = parse_json(text, "input");
  return document.ok() ? fuzzing::mutated_json(*document, random) : std::string();
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return fuzzing::mutate(data, size, max_size, seed, changed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_program(text);
  try_expression(text);
  try_tree_spec(text);
  return 0;
}
