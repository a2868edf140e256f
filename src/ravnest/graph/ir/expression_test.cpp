#include "ravnest/graph/ir/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/graph/ir/tree_spec.h"

namespace ravnest::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const SymbolValues kSymbols = {{"s0", 6}, {"s1", 5}};

Result<std::int64_t> value(const std::string& text) { return evaluate(Size{0, text}, kSymbols); }
std::string failure(const std::string& text) { return value(text).status().message(); }

TEST(Expression, ASymbolWithAssumptionsHasTheValueThatItIsGiven) {
  EXPECT_EQ(value("Symbol('s0', positive=True, integer=True)").value(), 6);
  EXPECT_EQ(value(symbol_text("s1")).value(), 5);
}

TEST(Expression, ArithmeticIsEvaluatedInnermostFirst) {
  EXPECT_EQ(value("Add(Mul(Integer(2), Symbol('s0')), Integer(-1))").value(), 11);
  EXPECT_EQ(value("Add(1,2,3)").value(), 6);
  EXPECT_EQ(value("Pow(Symbol('s1'), Integer(2))").value(), 25);
  EXPECT_EQ(value("Max(Symbol('s0'), Symbol('s1'), 2)").value(), 6);
  EXPECT_EQ(value("Min(Symbol('s0'), Symbol('s1'))").value(), 5);
  EXPECT_EQ(value("ceiling(Mul(Rational(1, 2), Symbol('s1')))").value(), 3);
  EXPECT_EQ(value("TruncToInt(IntTrueDiv(Symbol('s1'), Integer(2)))").value(), 2);
  EXPECT_EQ(value("Mul(Float('0.5', precision=53), Symbol('s0'))").value(), 3);
}

TEST(Expression, DivisionAndRemainderRoundTowardsMinusInfinityAsPythonsDo) {
  EXPECT_EQ(value("FloorDiv(Integer(-7), Integer(2))").value(), -4);
  EXPECT_EQ(value("Mod(Integer(-7), Integer(2))").value(), 1);
  EXPECT_EQ(value("PythonMod(Integer(7), Integer(-2))").value(), -1);
}

TEST(Expression, AnUnknownFunctionIsRefusedByName) {
  const Result<Expression> parsed = parse_expression("Gamma(Symbol('s0'))");
  EXPECT_EQ(parsed.status().code(), Code::kUnsupported);
  EXPECT_THAT(parsed.status().message(), HasSubstr("unknown function \"Gamma\""));
}

TEST(Expression, NestingBeyondTheBoundIsRefused) {
  std::string deep = "Integer(1)";
  for (int i = 0; i < 60; ++i) deep = "Abs(" + deep + ")";
  EXPECT_TRUE(parse_expression(deep).ok());
  for (int i = 0; i < 10000; ++i) deep = "Abs(" + deep;
  EXPECT_THAT(parse_expression(deep).status().message(), HasSubstr("nested too deeply"));
}

TEST(Expression, DivisionByZeroIsAnErrorNotANumber) {
  EXPECT_THAT(failure("FloorDiv(Symbol('s0'), Integer(0))"), HasSubstr("division by zero"));
  EXPECT_THAT(failure("Mod(Symbol('s0'), Integer(0))"), HasSubstr("division by zero"));
  EXPECT_THAT(failure("Pow(Integer(0), Integer(-1))"), HasSubstr("out of range"));
}

TEST(Expression, WhatIsTooLargeForASizeIsAnError) {
  EXPECT_THAT(failure("Pow(Integer(10), Integer(400))"), HasSubstr("out of range"));
  EXPECT_THAT(failure("Integer(1e18)"), HasSubstr("out of range"));
  EXPECT_THAT(failure("Integer(nan)"), HasSubstr("out of range"));
}

TEST(Expression, ASymbolWithoutAValueIsNamed) { EXPECT_EQ(failure("Symbol('u7')"), "symbol u7 has no value"); }

TEST(Expression, AFunctionOfTwoRefusesAnotherNumberOfArguments) {
  EXPECT_THAT(failure("FloorDiv(Integer(1))"), HasSubstr("FloorDiv takes two arguments, not 1"));
  EXPECT_THAT(failure("Pow(1, 2, 3)"), HasSubstr("Pow takes two arguments, not 3"));
}

TEST(Expression, TextThatIsNotAnExpressionIsRefused) {
  for (const char* text : {"", " ", "(", "Add", "Add(", "Add()", "Add(1", "Add(1))", "Symbol()", "Symbol('')",
                           "Symbol('a'", "Symbol('a', b)", "Integer()", "Integer('1", "Integer(--1)", "1 2", "'s0'"})
    EXPECT_FALSE(parse_expression(text).ok()) << text;
}

TEST(Expression, OnlyASizeThatIsJustASymbolIsBare) {
  EXPECT_EQ(bare_symbol({4, symbol_text("s0")}), "s0");
  EXPECT_EQ(bare_symbol({4, "Mul(Integer(2), Symbol('s0'))"}), "");
  EXPECT_EQ(bare_symbol({4, ""}), "");
}

TEST(TreeSpec, ACallWithKeywordsKeepsItsShapeThroughText) {
  const std::string text =
      R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [
          {"type": "builtins.tuple", "context": "null", "children_spec": [
            {"type": null, "context": null, "children_spec": []}]},
          {"type": "builtins.dict", "context": "[\"mask\", \"labels\"]", "children_spec": [
            {"type": null, "context": null, "children_spec": []},
            {"type": null, "context": null, "children_spec": []}]}]}])";
  const Result<TreeSpec> spec = parse_tree_spec(text);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(leaf_count(*spec), 3);
  EXPECT_THAT(dict_keys(spec->children[1]).value(), ElementsAre("mask", "labels"));
  EXPECT_EQ(to_text(parse_tree_spec(to_text(*spec)).value()), to_text(*spec));
}

TEST(TreeSpec, APositionalCallHasALeafPerArgument) {
  EXPECT_EQ(leaf_count(positional_call(3)), 3);
  EXPECT_EQ(leaf_count(parse_tree_spec(to_text(positional_call(3))).value()), 3);
}

TEST(TreeSpec, AnotherVersionIsRefused) {
  const Result<TreeSpec> spec = parse_tree_spec(R"([2, {"type": null, "context": null, "children_spec": []}])");
  EXPECT_EQ(spec.status().code(), Code::kUnsupported);
  EXPECT_THAT(spec.status().message(), HasSubstr("version 2"));
}

TEST(TreeSpec, WhatIsNotASpecIsAnError) {
  for (const char* text : {"", "[]", "[1]", "[1, []]", "[1, {}]", R"([1, {"type": null, "children_spec": 3}])",
                           R"([1, {"type": null, "children_spec": [{"type": null, "children_spec": []}]}])"})
    EXPECT_EQ(parse_tree_spec(text).status().code(), Code::kCorrupt) << text;
}

TEST(TreeSpec, KeysOfADictThatAreNotStringsOrTooFewAreErrors) {
  EXPECT_EQ(dict_keys({"builtins.dict", "[1]", {{}}}).status().code(), Code::kUnsupported);
  EXPECT_EQ(dict_keys({"builtins.dict", "[\"a\"]", {{}, {}}}).status().code(), Code::kCorrupt);
  EXPECT_EQ(dict_keys({"builtins.dict", "", {}}).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace ravnest::ir
