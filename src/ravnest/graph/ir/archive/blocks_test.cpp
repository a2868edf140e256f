// Autocast blocks: operators with a mark in a Graph, calls with a graph of their own in a program.
#include "ravnest/graph/ir/archive/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/graph/ir/archive/program.h"
#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/graph/ir/verify.h"

namespace ravnest::ir {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// first; then a block with two operators, one of an inner block between them; then last. `inside` is read in the block
// only.
Graph graph_with_blocks() {
  testing::ModelBuilder builder;
  const auto sizes = {testing::dynamic("s0"), testing::fixed(2)};
  const std::string add = "torch.ops.aten.add.Tensor";
  const Ref x = builder.input("x", sizes);
  const Ref first = builder.call("first", add, {{"self", x}, {"other", x}}, sizes);
  const Ref inside = builder.call("inside", add, {{"self", first}, {"other", x}}, sizes, DType::kBFloat16);
  const Ref inner = builder.call("inner", add, {{"self", inside}, {"other", first}}, sizes);
  const Ref result = builder.call("result", add, {{"self", inner}, {"other", inside}}, sizes, DType::kBFloat16);
  const Ref last = builder.call("last", add, {{"self", result}, {"other", first}}, sizes);
  Graph graph = builder.returns({last, inner}).train;
  graph.autocasts = {{"cpu", DType::kBFloat16, true, true, -1}, {"cuda", DType::kFloat16, false, false, 0}};
  graph.operators[1].autocast = graph.operators[3].autocast = 0;
  graph.operators[2].autocast = 1;
  return graph;
}

json& nodes_of(json& program) { return program["graph_module"]["graph"]["nodes"]; }
json& block_of(json& node) { return node["inputs"][4]["arg"]["as_graph"]["graph"]; }

TEST(Blocks, BecomeCallsWithAGraphOfTheirOwn) {
  json program = encode_program(graph_with_blocks());
  ASSERT_EQ(nodes_of(program).size(), 3U);
  json& call = nodes_of(program)[1];
  EXPECT_EQ(call["target"], kAutocastTarget);
  EXPECT_EQ(call["inputs"][0]["arg"], (json{{"as_string", "cpu"}}));
  EXPECT_EQ(call["inputs"][2]["arg"], (json{{"as_bool", true}}));
  EXPECT_EQ(call["outputs"].size(), 2U) << "what the block around it reads, and what the graph returns";
  EXPECT_EQ(block_of(call)["nodes"].size(), 3U);
  EXPECT_EQ(block_of(call)["nodes"][1]["inputs"][0]["arg"], (json{{"as_string", "cuda"}}));
  const json& outside = program["graph_module"]["graph"]["tensor_values"];
  EXPECT_FALSE(outside.contains("inside"));
  EXPECT_TRUE(block_of(call)["tensor_values"].contains("inside"));
}

TEST(Blocks, ComeBackAsMarks) {
  const Graph graph = graph_with_blocks();
  const json program = encode_program(graph);
  const Result<Graph> again = decode_program(program, "model.json");
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->operators.size(), graph.operators.size());
  std::vector<std::string> names;
  std::vector<int> blocks;
  for (const Operator& op : again->operators) {
    names.push_back(op.name);
    blocks.push_back(op.autocast);
  }
  EXPECT_THAT(names, ElementsAre("first", "inside", "inner", "result", "last"));
  EXPECT_THAT(blocks, ElementsAre(-1, 0, 1, 0, -1));
  ASSERT_EQ(again->autocasts.size(), 2U);
  EXPECT_EQ(again->autocasts[1].device_type, "cuda");
  EXPECT_EQ(again->autocasts[1].dtype, DType::kFloat16);
  EXPECT_FALSE(again->autocasts[1].enabled || again->autocasts[1].cache);
  EXPECT_EQ(again->autocasts[1].parent, 0);
  EXPECT_EQ(encode_program(*again).dump(), program.dump());
}

TEST(Blocks, NamesInsideMayBeThoseOfOtherValuesOutside) {
  json program = encode_program(graph_with_blocks());
  json& block = block_of(nodes_of(program)[1]);
  std::string text = block.dump();
  for (std::size_t at; (at = text.find("\"inside\"")) != std::string::npos;) text.replace(at, 8, "\"last\"");
  block = json::parse(text);
  const Result<Graph> graph = decode_program(program, "model.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_NE(std::get<Ref>(graph->operators[1].outputs[0]), std::get<Ref>(graph->operators[4].outputs[0]));
  EXPECT_NE(graph->values[std::get<Ref>(graph->operators[1].outputs[0]).value].name, "last");
}

TEST(Blocks, WhatABlockReturnsAsItWasGivenIsTheSameValue) {
  json program = encode_program(graph_with_blocks());
  json& call = nodes_of(program)[1];
  const json given = block_of(call)["inputs"][0];
  const json name = call["outputs"][1];
  block_of(call)["outputs"][1] = given;
  const Result<Graph> graph = decode_program(program, "model.json");
  ASSERT_TRUE(graph.ok()) << graph.status() << name;
  EXPECT_EQ(std::get<Ref>(graph->operators[4].inputs[0].value), std::get<Ref>(graph->operators[1].inputs[0].value));
}

TEST(Blocks, ADamagedBlockIsRefusedWithItsPlace) {
  const auto failure = [](auto&& damage) {
    json program = encode_program(graph_with_blocks());
    damage(nodes_of(program)[1]);
    const Result<Graph> graph = decode_program(program, "model.json");
    EXPECT_FALSE(graph.ok());
    return std::string(graph.status().message());
  };
  EXPECT_THAT(failure([](json& call) { call["inputs"].erase(5); }), HasSubstr("more inputs than it is given"));
  EXPECT_THAT(failure([](json& call) { block_of(call)["inputs"].erase(1); }), HasSubstr("fewer inputs"));
  EXPECT_THAT(failure([](json& call) { call["outputs"].erase(1); }), HasSubstr("returns more than"));
  EXPECT_THAT(failure([](json& call) { block_of(call)["outputs"].erase(1); }), HasSubstr("returns less than"));
  EXPECT_THAT(failure([](json& call) { call["inputs"] = json::array(); }), HasSubstr("without its settings"));
  EXPECT_THAT(failure([](json& call) { block_of(call)["nodes"].erase(0); }), HasSubstr("used before it is defined"));
  EXPECT_THAT(failure([](json& call) { call["inputs"][4]["arg"] = call["inputs"][0]["arg"]; }), HasSubstr("setting"));
}

TEST(Blocks, ABlockMayNotLieInALaterOne) {
  Graph graph = graph_with_blocks();
  graph.autocasts[0].parent = 1;
  EXPECT_THAT(std::string(check(graph).message()), HasSubstr("does not come before it"));
  graph = graph_with_blocks();
  graph.operators[0].autocast = 2;
  EXPECT_THAT(std::string(check(graph).message()), HasSubstr("autocast block 2 does not exist"));
}

}  // namespace
}  // namespace ravnest::ir
