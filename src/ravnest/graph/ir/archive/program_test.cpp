#include "ravnest/graph/ir/archive/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/graph/ir/verify.h"

namespace ravnest::ir {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json tensor_value(std::vector<json> sizes) {
  std::vector<json> strides(sizes.size(), json{{"as_int", 1}});
  return {{"dtype", 7},
          {"layout", 7},
          {"sizes", sizes},
          {"strides", strides},
          {"storage_offset", {{"as_int", 0}}},
          {"requires_grad", false},
          {"device", {{"type", "cpu"}, {"index", nullptr}}}};
}

json as_tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

json node(const std::string& target, const json& inputs, const json& outputs) {
  return {{"target", target}, {"inputs", inputs},           {"outputs", outputs},
          {"name", "n"},      {"metadata", json::object()}, {"is_hop_single_tensor_return", nullptr}};
}

json argument(const std::string& name, const json& value) { return {{"name", name}, {"arg", value}, {"kind", 1}}; }

// y = x + b, with a buffer b, as torch writes it.
json program() {
  const json batch = {{"as_expr", {{"expr_str", symbol_text("s0")}, {"hint", {{"as_int", 4}}}}}};
  const json leaf = R"({"type": null, "context": null, "children_spec": []})"_json;
  return {{"schema_version", {{"major", 8}, {"minor", 20}}},
          {"range_constraints", {{"s0", {{"min_val", 2}, {"max_val", nullptr}}}}},
          {"graph_module",
           {{"graph",
             {{"inputs", {as_tensor("b"), as_tensor("x")}},
              {"outputs", json::array({as_tensor("y")})},
              {"nodes", json::array({node("torch.ops.aten.add.Tensor",
                                          {argument("self", as_tensor("x")), argument("other", as_tensor("b"))},
                                          json::array({as_tensor("y")}))})},
              {"tensor_values", {{"b", tensor_value({})}, {"x", tensor_value({batch})}, {"y", tensor_value({batch})}}},
              {"sym_int_values", json::object()},
              {"sym_float_values", json::object()},
              {"sym_bool_values", json::object()},
              {"custom_obj_values", json::object()}}},
            {"signature",
             {{"input_specs",
               {{{"buffer", {{"arg", {{"name", "b"}}}, {"buffer_name", "b"}, {"persistent", true}}}},
                {{"user_input", {{"arg", as_tensor("x")}}}}}},
              {"output_specs", json::array({{{"user_output", {{"arg", as_tensor("y")}}}}})}}},
            {"module_call_graph", json::array({{{"fqn", ""},
                                                {"signature",
                                                 {{"in_spec", to_text(positional_call(1))},
                                                  {"out_spec", to_text(TreeSpec{})},
                                                  {"forward_arg_names", {"x"}}}}}})}}}};
}

json& graph_of(json& program) { return program["graph_module"]["graph"]; }
json& first_node(json& program) { return graph_of(program)["nodes"][0]; }
json& signature_of(json& program) { return program["graph_module"]["signature"]; }

Status failure(const json& program) {
  const Result<Graph> graph = decode_program(program, "model.json");
  EXPECT_FALSE(graph.ok()) << "decoded";
  return graph.status();
}

TEST(Program, ASmallProgramIsDecodedAsItIsWritten) {
  const Result<Graph> graph = decode_program(program(), "model.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->operators.size(), 1U);
  EXPECT_EQ(graph->operators[0].target, "torch.ops.aten.add.Tensor");
  ASSERT_EQ(graph->inputs.size(), 2U);
  EXPECT_EQ(graph->inputs[0].kind, InputKind::kBuffer);
  EXPECT_EQ(graph->inputs[0].target, "b");
  const Value& x = graph->values[graph->inputs[1].value];
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(bare_symbol(x.tensor.sizes[0]), "s0");
  EXPECT_EQ(x.tensor.sizes[0].hint, 4);
  EXPECT_EQ(graph->ranges.at("s0").min, 2);
  EXPECT_EQ(graph->ranges.at("s0").max, std::nullopt);
}

TEST(Program, EveryKindOfArgumentSurvivesARoundTrip) {
  testing::ModelBuilder builder;
  const Ref x = builder.input("x", {testing::dynamic("s0"), testing::fixed(2)});
  const Ref size = builder.number("size", "torch.ops.aten.sym_size.int", {{"self", x}, {"dim", std::int64_t{0}}},
                                  testing::dynamic("s0"));
  const Ref part = builder.tensor("part", {testing::fixed(2)});
  builder
      .add("all", "torch.ops.own.all.default",
           {{"none", None{}},
            {"tensor", x},
            {"flag", true},
            {"integer", std::int64_t{-3}},
            {"number", 0.1, true},
            {"complex", std::complex<double>(1, -2)},
            {"string", std::string("text \"quoted\"")},
            {"dtype", DType::kBFloat16},
            {"format", MemoryFormat::kChannelsLast},
            {"layout", StridedLayout{}},
            {"device", Device{"cuda", 1}},
            {"flags", std::vector<bool>{true, false}},
            {"integers", std::vector<std::int64_t>{1, 2}},
            {"numbers", std::vector<double>{0.5, 2}},
            {"strings", std::vector<std::string>{"a"}},
            {"sizes", std::vector<IntOrRef>{std::int64_t{2}, size}},
            {"tensors", std::vector<Ref>{x, x}},
            {"optionals", std::vector<std::optional<Ref>>{std::nullopt, x}}},
           {std::vector<Ref>{part}})
      .module_stack = "L__self__,,Net;L__self__fc,fc,Linear";
  const Graph graph = builder.returns({part, None{}, std::int64_t{5}, 0.25, true, std::string("s"), size}).train;
  const Result<Graph> again = decode_program(encode_program(graph), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(encode_program(*again).dump(1), encode_program(graph).dump(1));
  ASSERT_EQ(again->operators.size(), 2U);
  EXPECT_TRUE(again->operators[1].inputs[4].keyword);
  EXPECT_EQ(module_path(again->operators[1]), "fc");
  EXPECT_EQ(std::get<double>(again->operators[1].inputs[4].value), 0.1);
  EXPECT_EQ(again->outputs.size(), graph.outputs.size());
}

TEST(Program, InfinitiesAndNaNAreNumbers) {
  json text = program();
  first_node(text)["inputs"].push_back(argument("alpha", {{"as_float", "-Infinity"}}));
  first_node(text)["inputs"].push_back(argument("beta", {{"as_floats", {"Infinity", "NaN", 1.5}}}));
  const Result<Graph> graph = decode_program(text, "model.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(std::get<double>(graph->operators[0].inputs[2].value), -std::numeric_limits<double>::infinity());
  const auto& numbers = std::get<std::vector<double>>(graph->operators[0].inputs[3].value);
  EXPECT_EQ(numbers[0], std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(numbers[1]));
  EXPECT_EQ(encode_program(*graph)["graph_module"]["graph"]["nodes"][0]["inputs"], first_node(text)["inputs"]);
}

TEST(Program, AnUnknownKindOfArgumentIsRefusedByName) {
  json text = program();
  first_node(text)["inputs"].push_back(argument("subgraph", {{"as_graph", 1}}));
  EXPECT_EQ(failure(text).code(), Code::kUnsupported);
  EXPECT_THAT(failure(text).message(), HasSubstr("nodes[0].inputs[2].arg.as_graph: argument kind \"as_graph\""));
}

TEST(Program, AHigherOrderOperatorIsRefusedByName) {
  json text = program();
  first_node(text)["target"] = "torch.ops.higher_order.cond";
  EXPECT_EQ(failure(text).code(), Code::kUnsupported);
  EXPECT_THAT(failure(text).message(), HasSubstr("higher-order operator torch.ops.higher_order.cond"));
}

TEST(Program, AnotherMajorVersionOfTheSchemaIsRefused) {
  json text = program();
  text["schema_version"]["major"] = 9;
  EXPECT_EQ(failure(text).code(), Code::kUnsupported);
  EXPECT_THAT(failure(text).message(), HasSubstr("schema version 9.20; this version of ravnest reads 8.x"));
}

TEST(Program, AnotherMinorVersionOfTheSchemaIsRead) {
  json text = program();
  text["schema_version"]["minor"] = 14;
  EXPECT_TRUE(decode_program(text, "model.json").ok());
}

TEST(Program, AnUndeclaredValueIsNamed) {
  json text = program();
  first_node(text)["inputs"][0]["arg"] = as_tensor("z");
  EXPECT_THAT(failure(text).message(), HasSubstr("value \"z\" is not declared"));
}

TEST(Program, AValueUsedBeforeItIsMadeIsNamed) {
  json text = program();
  graph_of(text)["tensor_values"]["late"] = tensor_value({});
  first_node(text)["inputs"][0]["arg"] = as_tensor("late");
  graph_of(text)["nodes"].push_back(node("torch.ops.aten.relu.default", json::array({argument("self", as_tensor("x"))}),
                                         json::array({as_tensor("late")})));
  EXPECT_THAT(failure(text).message(), HasSubstr("value \"late\" is used before it is defined"));
}

TEST(Program, AValueMadeTwiceIsNamed) {
  json text = program();
  graph_of(text)["nodes"].push_back(first_node(text));
  EXPECT_THAT(failure(text).message(), HasSubstr("value \"y\" is defined twice"));
  text = program();
  graph_of(text)["sym_int_values"]["y"] = {{"as_int", 3}};
  EXPECT_THAT(failure(text).message(), HasSubstr("the name is used twice"));
}

TEST(Program, ATensorWhereASizeIsNamedIsAnError) {
  json text = program();
  first_node(text)["inputs"].push_back(argument("alpha", {{"as_sym_int", {{"as_name", "x"}}}}));
  EXPECT_THAT(failure(text).message(), HasSubstr("value \"x\" is of another kind"));
}

TEST(Program, AReturnedBufferBecomesAWriteBehindTheLastUseOfTheOldValue) {
  json text = program();
  graph_of(text)["tensor_values"]["new_b"] = tensor_value({});
  graph_of(text)["nodes"].insert(graph_of(text)["nodes"].begin(),
                                 node("torch.ops.aten.neg.default", json::array({argument("self", as_tensor("b"))}),
                                      json::array({as_tensor("new_b")})));
  graph_of(text)["outputs"] = {as_tensor("new_b"), as_tensor("y")};
  auto& specs = signature_of(text)["output_specs"];
  specs.insert(specs.begin(), json{{"buffer_mutation", {{"arg", {{"name", "new_b"}}}, {"buffer_name", "b"}}}});
  const Result<Graph> graph = decode_program(text, "model.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->operators.size(), 3U) << "neg, add, copy_: add still reads the old value";
  EXPECT_EQ(graph->operators[2].target, "torch.ops.aten.copy_.default");
  EXPECT_EQ(graph->operators[2].inputs[0].value, Argument(Ref{graph->inputs[0].value}));
  EXPECT_EQ(graph->operators[2].place, 2);
  EXPECT_EQ(graph->outputs.size(), 1U);
  specs[0]["buffer_mutation"]["buffer_name"] = "c";
  EXPECT_THAT(failure(text).message(), HasSubstr("no buffer \"c\""));
}

TEST(Program, MetadataAssertionsAreDropped) {
  json text = program();
  graph_of(text)["nodes"].push_back(
      node("torch.ops.aten._assert_tensor_metadata.default", json::array(), json::array()));
  EXPECT_EQ(decode_program(text, "model.json").value().operators.size(), 1U);
}

TEST(Program, KindsOfInputsAndOutputsThatAreNotKnownAreRefusedByName) {
  json text = program();
  signature_of(text)["input_specs"][1] = {{"token", {{"arg", {{"name", "x"}}}}}};
  EXPECT_THAT(failure(text).message(), HasSubstr("graph input of kind \"token\""));
  text = program();
  signature_of(text)["output_specs"][0] = {{"user_input_mutation", json::object()}};
  EXPECT_THAT(failure(text).message(), HasSubstr("graph output of kind \"user_input_mutation\""));
  text = program();
  signature_of(text)["output_specs"][0] = {{"user_output", {{"arg", {{"as_ints", {1, 2}}}}}}};
  EXPECT_THAT(failure(text).message(), HasSubstr("returns this kind of value"));
  text = program();
  graph_of(text)["custom_obj_values"]["engine"] = 1;
  EXPECT_THAT(failure(text).message(), HasSubstr("custom object \"engine\""));
}

TEST(Program, SpecsAndValuesThatDifferInNumberAreErrors) {
  json text = program();
  signature_of(text)["input_specs"].erase(0);
  EXPECT_THAT(failure(text).message(), HasSubstr("as many specs as graph inputs"));
  text = program();
  graph_of(text)["outputs"] = json::array();
  EXPECT_THAT(failure(text).message(), HasSubstr("as many specs as graph outputs"));
  text = program();
  text["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = to_text(positional_call(2));
  EXPECT_THAT(failure(text).message(), HasSubstr("in_spec has 2 leaves for 1 values"));
  text = program();
  graph_of(text)["inputs"][1] = as_tensor("y");
  EXPECT_THAT(failure(text).message(), HasSubstr("the signature names another value"));
}

TEST(Program, ASizeThatNoDoubleHoldsExactlyIsAnError) {
  json text = program();
  for (const json& lie : {json(std::int64_t{1} << 60), json(INT64_MIN), json(1e300), json("NaN")}) {
    graph_of(text)["sym_int_values"]["s"] = {
        {"as_expr", {{"expr_str", symbol_text("s0")}, {"hint", {{"as_int", lie}}}}}};
    EXPECT_EQ(failure(text).code(), Code::kCorrupt) << lie;
  }
  graph_of(text)["sym_int_values"]["s"] = {{"as_expr", {{"expr_str", ""}, {"hint", nullptr}}}};
  EXPECT_THAT(failure(text).message(), HasSubstr("empty expression"));
}

// Every member of the document in turn replaced by something of another type: the decoder must say so or do without.
TEST(Program, NoMemberOfAnotherTypeGetsPastTheDecoder) {
  const json good = program();
  const json flat = good.flatten();
  const json strange[] = {nullptr, -1, 1e99, "?", true, json::array(), json::object(), UINT64_MAX};
  for (const auto& [path, unused] : flat.items()) {
    for (std::string at = path; !at.empty(); at = at.substr(0, at.rfind('/'))) {
      for (const json& value : strange) {
        json text = good;
        text[json::json_pointer(at)] = value;
        const Result<Graph> graph = decode_program(text, "model.json");
        if (graph.ok()) {
          EXPECT_TRUE(check(*graph).ok()) << at;
        } else {
          EXPECT_FALSE(graph.status().message().empty()) << at;
        }
      }
    }
  }
}

TEST(Program, AMemberThatIsMissingIsNamedWithItsPlace) {
  json text = program();
  first_node(text).erase("target");
  EXPECT_EQ(failure(text).message(), "model.json.graph_module.graph.nodes[0]: no \"target\"");
}

TEST(ModulePath, IsTheInnermostModuleWithoutTheNumberOfTheCall) {
  EXPECT_EQ(module_path({"n", "t", {}, {}, "L__self__,,Net;k,encoder.fc@1,Linear", 0}), "encoder.fc");
  EXPECT_EQ(module_path({"n", "t", {}, {}, "L__self__,,Net", 0}), "");
  EXPECT_EQ(module_path({"n", "t", {}, {}, "", 0}), "");
  EXPECT_EQ(module_path({"n", "t", {}, {}, "no commas", 0}), "");
}

}  // namespace
}  // namespace ravnest::ir
