#include "ravnest/graph/operators/operators.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/graph/operators/boxing.h"
#include "ravnest/graph/operators/size_operators.h"

namespace ravnest::graph {
namespace {

using c10::IValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

ir::Operator op(const std::string& target, std::vector<ir::NamedArgument> inputs, std::vector<ir::Argument> outputs) {
  return {"n", target, std::move(inputs), std::move(outputs), "", 0};
}

Effects effects(const std::string& target, std::vector<ir::NamedArgument> inputs, std::vector<ir::Argument> outputs) {
  const Result<Effects> result = effects_of(op(target, std::move(inputs), std::move(outputs)));
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

TEST(Operators, AnUnknownOneIsRefusedByName) {
  for (const char* target : {"torch.ops.aten.no_such.default", "torch.ops.aten.add.NoSuch", "torch.ops.aten",
                             "aten.add", "os.system", "", "torch.ops..."}) {
    EXPECT_EQ(find_operator(target).status().code(), Code::kUnsupported);
    EXPECT_THAT(find_operator(target).status().message(), HasSubstr(std::string("operator ") + target));
  }
}

TEST(Operators, TheDefaultOverloadHasNoName) {
  EXPECT_EQ(find_operator("torch.ops.aten.linear.default").value().schema().overload_name(), "");
  EXPECT_EQ(find_operator("torch.ops.aten.add.Tensor").value().schema().overload_name(), "Tensor");
}

TEST(Effects, AnInPlaceAdditionWritesItsFirstArgumentAndReturnsIt) {
  const Effects add =
      effects("torch.ops.aten.add_.Tensor", {{"self", ir::Ref{0}}, {"other", ir::Ref{1}}}, {ir::Ref{2}});
  EXPECT_THAT(add.writes, ElementsAre(0));
  EXPECT_THAT(add.aliases, ElementsAre(Pair(2, 0)));
  EXPECT_FALSE(add.random);
}

TEST(Effects, APlainAdditionHasNone) {
  const Effects add = effects("torch.ops.aten.add.Tensor", {{"self", ir::Ref{0}}, {"other", ir::Ref{1}}}, {ir::Ref{2}});
  EXPECT_THAT(add.writes, IsEmpty());
  EXPECT_THAT(add.aliases, IsEmpty());
}

TEST(Effects, AViewSharesMemoryWithoutWritingIt) {
  const Effects view = effects("torch.ops.aten.view.default",
                               {{"self", ir::Ref{0}}, {"size", std::vector<std::int64_t>{-1}}}, {ir::Ref{1}});
  EXPECT_THAT(view.writes, IsEmpty());
  EXPECT_THAT(view.aliases, ElementsAre(Pair(1, 0)));
}

TEST(Effects, EveryPieceOfASplitSharesMemoryWithTheWhole) {
  const Effects split = effects("torch.ops.aten.split.Tensor", {{"self", ir::Ref{0}}, {"split_size", std::int64_t{1}}},
                                {std::vector<ir::Ref>{{1}, {2}}});
  EXPECT_THAT(split.aliases, UnorderedElementsAre(Pair(1, 0), Pair(2, 0)));
}

TEST(Effects, EveryTensorOfAListIsWrittenByAnInPlaceOperatorOnLists) {
  const Effects add = effects("torch.ops.aten._foreach_add_.Scalar",
                              {{"self", std::vector<ir::Ref>{{0}, {1}}}, {"scalar", std::int64_t{1}}}, {});
  EXPECT_THAT(add.writes, ElementsAre(0, 1));
}

TEST(Effects, BatchNormWritesItsStatisticsInTrainingOnly) {
  const auto batch_norm = [](bool training) {
    return effects("torch.ops.aten.batch_norm.default",
                   {{"input", ir::Ref{0}},
                    {"weight", ir::Ref{1}},
                    {"bias", ir::Ref{2}},
                    {"running_mean", ir::Ref{3}},
                    {"running_var", ir::Ref{4}},
                    {"training", training},
                    {"momentum", 0.1},
                    {"eps", 1e-5},
                    {"cudnn_enabled", true}},
                   {ir::Ref{5}});
  };
  EXPECT_THAT(batch_norm(true).writes, ElementsAre(3, 4));
  EXPECT_THAT(batch_norm(false).writes, IsEmpty());
  EXPECT_THAT(batch_norm(true).aliases, IsEmpty());
}

TEST(Effects, DropoutIsRandomAndMayReturnItsInputItself) {
  const Effects dropout =
      effects("torch.ops.aten.dropout.default", {{"input", ir::Ref{0}}, {"p", 0.5}, {"train", true}}, {ir::Ref{1}});
  EXPECT_TRUE(dropout.random);
  EXPECT_THAT(dropout.aliases, ElementsAre(Pair(1, 0)));
}

TEST(Effects, ArithmeticOnSizesHasNone) {
  EXPECT_THAT(effects("_operator.mul", {{"a", ir::Ref{0}}, {"b", ir::Ref{1}}}, {ir::Ref{2}}).aliases, IsEmpty());
}

IValue size(const std::string& target, std::vector<IValue> arguments) {
  const SizeOperator* found = find_size_operator(target);
  EXPECT_NE(found, nullptr) << target;
  EXPECT_EQ(found->arity, arguments.size()) << target;
  return found->call(arguments);
}

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

TEST(SizeOperators, DivisionAndRemainderOfNegativesAreThoseOfPython) {
  EXPECT_EQ(size("_operator.floordiv", {7, 2}).toInt(), 3);
  EXPECT_EQ(size("_operator.floordiv", {-7, 2}).toInt(), -4);
  EXPECT_EQ(size("_operator.floordiv", {7, -2}).toInt(), -4);
  EXPECT_EQ(size("_operator.floordiv", {-6, 2}).toInt(), -3);
  EXPECT_EQ(size("_operator.floordiv", {-7, -1}).toInt(), 7);
  EXPECT_EQ(size("_operator.mod", {-7, 2}).toInt(), 1);
  EXPECT_EQ(size("_operator.mod", {7, -2}).toInt(), -1);
  EXPECT_EQ(size("_operator.mod", {-6, 2}).toInt(), 0);
  EXPECT_EQ(size("_operator.floordiv", {-7.5, 2}).toDouble(), -4.0);
  EXPECT_EQ(size("_operator.mod", {5.5, 2}).toDouble(), 1.5);
  EXPECT_EQ(size("_operator.mod", {-5.5, 2}).toDouble(), 0.5);
}

TEST(SizeOperators, DivisionByZeroThrowsWhateverTheKind) {
  for (const char* target : {"_operator.floordiv", "_operator.mod", "_operator.truediv"}) {
    EXPECT_THROW(size(target, {1, 0}), c10::Error) << target;
    EXPECT_THROW(size(target, {1.0, 0.0}), c10::Error) << target;
  }
}

TEST(SizeOperators, WhatDoesNotFitThrowsInsteadOfTrappingOrWrapping) {
  EXPECT_THROW(size("_operator.floordiv", {kLowest, -1}), c10::Error);
  EXPECT_EQ(size("_operator.mod", {kLowest, -1}).toInt(), 0);
  EXPECT_THROW(size("_operator.neg", {kLowest}), c10::Error);
  EXPECT_THROW(size("_operator.mul", {kLowest, 2}), c10::Error);
  EXPECT_THROW(size("_operator.add", {kLowest, -1}), c10::Error);
  EXPECT_THROW(size("_operator.sub", {kLowest, 1}), c10::Error);
  EXPECT_THROW(size("_operator.pow", {10, 30}), c10::Error);
  EXPECT_THROW(size("_operator.lshift", {1, 64}), c10::Error);
  EXPECT_THROW(size("_operator.rshift", {1, -1}), c10::Error);
  EXPECT_THROW(size("math.trunc", {1e300}), c10::Error);
}

TEST(SizeOperators, WholeNumbersStayWholeUnlessAFloatIsInvolved) {
  EXPECT_TRUE(size("_operator.mul", {2, 3}).isInt());
  EXPECT_TRUE(size("_operator.mul", {2, 3.0}).isDouble());
  EXPECT_EQ(size("_operator.truediv", {3, 2}).toDouble(), 1.5);
  EXPECT_EQ(size("_operator.pow", {3, 35}).toInt(), 50031545098999707) << "more digits than a double has";
  EXPECT_EQ(size("_operator.pow", {2, -1}).toDouble(), 0.5);
  EXPECT_EQ(size("_operator.lshift", {3, 4}).toInt(), 48);
  EXPECT_EQ(size("_operator.rshift", {-5, 1}).toInt(), -3);
  EXPECT_EQ(size("math.trunc", {-2.5}).toInt(), -2);
}

TEST(SizeOperators, ComparisonsAndLogicGiveBooleans) {
  EXPECT_TRUE(size("_operator.ge", {3, 3}).toBool());
  EXPECT_FALSE(size("_operator.lt", {3, 2.5}).toBool());
  EXPECT_TRUE(size("_operator.and_", {true, true}).toBool());
  EXPECT_EQ(size("_operator.and_", {6, 3}).toInt(), 2);
  EXPECT_FALSE(size("torch.sym_not", {true}).toBool());
  EXPECT_EQ(size("torch.sym_ite", {false, 1, 2}).toInt(), 2);
  EXPECT_EQ(size("torch.sym_max", {4, 9}).toInt(), 9);
  EXPECT_EQ(size("torch.ops.aten.sym_size.int", {at::zeros({2, 5}), -1}).toInt(), 5);
  EXPECT_EQ(find_size_operator("_operator.matmul"), nullptr);
}

const c10::Argument& declared(const std::string& target, const std::string& name) {
  static std::map<std::string, c10::OperatorHandle> handles;
  const auto handle = handles.emplace(target, find_operator(target).value()).first->second;
  return handle.schema().arguments()[*handle.schema().argumentIndexWithName(name)];
}

IValue boxed(const ir::Argument& value, const std::string& target, const std::string& name) {
  const Result<IValue> result = box_constant(value, declared(target, name), at::kCPU);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

TEST(Boxing, ANumberIsWhatTheSchemaAsksFor) {
  EXPECT_EQ(boxed(std::int64_t{1}, "torch.ops.aten.dropout.default", "p").toDouble(), 1.0);
  EXPECT_EQ(boxed(true, "torch.ops.aten.dropout.default", "p").toDouble(), 1.0);
  EXPECT_EQ(boxed(true, "torch.ops.aten.softmax.int", "dim").toInt(), 1);
  EXPECT_TRUE(boxed(std::int64_t{3}, "torch.ops.aten.add.Scalar", "other").isInt()) << "a Scalar keeps its kind";
  EXPECT_EQ(boxed(DType::kFloat64, "torch.ops.aten.softmax.int", "dtype").toScalarType(), at::kDouble);
  EXPECT_TRUE(boxed(ir::None{}, "torch.ops.aten.softmax.int", "dtype").isNone());
}

TEST(Boxing, ANumberForATensorIsWeakInTypePromotion) {
  const at::Tensor number = boxed(2.0, "torch.ops.aten.mul.Tensor", "other").toTensor();
  EXPECT_EQ(number.dim(), 0);
  EXPECT_EQ(at::mul(at::ones({}, at::kFloat), number).scalar_type(), at::kFloat);
  EXPECT_EQ(wrapped_number(std::int64_t{2}).scalar_type(), at::kLong);
  EXPECT_EQ(wrapped_number(true).scalar_type(), at::kBool);
}

TEST(Boxing, OneNumberForAListIsAsManyAsTheListWants) {
  EXPECT_EQ(boxed(std::int64_t{2}, "torch.ops.aten.max_pool2d.default", "stride").toIntVector(),
            (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(boxed(std::vector<std::int64_t>{3, 1}, "torch.ops.aten.max_pool2d.default", "stride").toIntVector(),
            (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(
      boxed(std::vector<std::int64_t>{1}, "torch.ops.aten.upsample_nearest2d.vec", "scale_factors").toDoubleVector(),
      std::vector<double>{1.0});
}

TEST(Boxing, ADeviceBecomesTheOneThatTheGraphRunsOn) {
  const Result<IValue> device =
      box_constant(Device{"cuda", 3}, declared("torch.ops.aten.zeros.default", "device"), at::kCPU);
  EXPECT_EQ(device.value().toDevice(), at::kCPU);
}

TEST(Boxing, AListWhereNoneIsWantedIsRefusedByTheArgumentsName) {
  const Result<IValue> result =
      box_constant(std::vector<std::int64_t>{1}, declared("torch.ops.aten.softmax.int", "dim"), at::kCPU);
  EXPECT_EQ(result.status().code(), Code::kUnsupported);
  EXPECT_THAT(result.status().message(), HasSubstr("argument dim"));
}

}  // namespace
}  // namespace ravnest::graph
