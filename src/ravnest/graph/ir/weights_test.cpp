#include "ravnest/graph/ir/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/graph/ir/testing/models.h"

namespace ravnest::ir {
namespace {

using archive::NamedPayloads;
using archive::Payload;
using archive::testing::float_payload;
using archive::testing::floats_of;
using ::testing::ElementsAre;

// The model's weights of these names and values.
Model model_of(const NamedPayloads& weights) { return testing::holder(weights); }

void expect_refusal(const NamedPayloads& own, const NamedPayloads& given, std::string_view sentence) {
  Model model = model_of(own);
  const auto before = archive::testing::shown(model.weights);
  const Status status = replace_weights(model, given, "w.pt");
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_EQ(status.message(), sentence);
  EXPECT_EQ(archive::testing::shown(model.weights), before);
  EXPECT_TRUE(archive::testing::same_elements(model.weights, model_of(own).weights)) << "the model is as it was";
}

const Payload kTwo = float_payload({2}, {1, 2});
const Payload kOtherTwo = float_payload({2}, {3, 4});

TEST(ReplaceWeights, TheModelKeepsItsOrderAndWhatIsTrained) {
  Model model = testing::affine();
  ASSERT_EQ(
      replace_weights(model, {{"fc.b", float_payload({2}, {7, 8})}, {"fc.w", float_payload({2}, {9, 10})}}, "w.pt"),
      Status());
  EXPECT_THAT(archive::testing::names_of(model.weights), ElementsAre("fc.w", "fc.b"));
  EXPECT_THAT(floats_of(model.weights[0].second), ElementsAre(9, 10));
  EXPECT_THAT(floats_of(model.weights[1].second), ElementsAre(7, 8));
  EXPECT_TRUE(model.weights[0].second.requires_grad && model.weights[0].second.is_parameter);
  EXPECT_FALSE(model.weights[1].second.requires_grad || model.weights[1].second.is_parameter);
}

TEST(ReplaceWeights, AllThatDoesNotFitIsNamed) {
  expect_refusal({{"a", kTwo}, {"b", kOtherTwo}, {"c", float_payload({3}, {1, 2, 3})}}, {{"c", kTwo}, {"d\n", kTwo}},
                 "w.pt is not of this model; it lacks: a, b; the model does not know: d?; "
                 "of other types or sizes: c (float32 [2] in place of float32 [3])");
  Payload integers = kTwo;
  integers.dtype = DType::kInt32;
  expect_refusal({{"a", kTwo}}, {{"a", integers}},
                 "w.pt is not of this model; of other types or sizes: a (int32 [2] in place of float32 [2])");
  expect_refusal({{"a", kTwo}}, {}, "w.pt is not of this model; it lacks: a");
}

TEST(ReplaceWeights, ABeginningOfAllNamesIsSeen) {
  expect_refusal({{"a.w", kTwo}, {"w", kOtherTwo}}, {{"module.w", kTwo}, {"module.a.w", kTwo}},
                 "the names in w.pt all begin with \"module.\", which the model's do not; "
                 "save the state dict of the model itself");
}

TEST(ReplaceWeights, TiedWeightsStayTied) {
  for (const NamedPayloads& given : {NamedPayloads{{"a", kOtherTwo}, {"b", float_payload({2}, {3, 4})}},
                                     NamedPayloads{{"a", kOtherTwo}}, NamedPayloads{{"b", kOtherTwo}}}) {
    Model model = model_of({{"a", kTwo}, {"b", kTwo}});
    ASSERT_EQ(replace_weights(model, given, "w.pt"), Status());
    EXPECT_TRUE(same_tensor(model.weights[0].second, model.weights[1].second));
    EXPECT_THAT(floats_of(model.weights[1].second), ElementsAre(3, 4));
  }
  expect_refusal({{"a", kTwo}, {"b", kTwo}}, {{"a", kTwo}, {"b", kOtherTwo}},
                 "the model has one tensor under several names, but w.pt has different values for a and b");
}

TEST(ReplaceWeights, WhatTheModelHasApartComesApart) {
  Payload first = float_payload({4}, {5, 6, 7, 8});
  first.sizes = {2};
  Payload last = first;
  last.storage_offset = 2;
  Model model = model_of({{"a", kTwo}, {"b", kOtherTwo}, {"c", float_payload({2}, {0, 0})}});
  ASSERT_EQ(replace_weights(model, {{"a", first}, {"b", first}, {"c", last}}, "w.pt"), Status());
  EXPECT_NE(model.weights[0].second.storage, model.weights[1].second.storage);
  EXPECT_THAT(floats_of(model.weights[1].second), ElementsAre(5, 6));
  EXPECT_THAT(floats_of(model.weights[2].second), ElementsAre(7, 8));
  EXPECT_EQ(model.weights[2].second.storage->bytes.size(), 8U) << "and takes no more memory than it needs";
}

TEST(ReplaceWeights, AParameterWhoseElementsOverlapIsRefused) {
  Payload expanded = float_payload({1}, {1});
  expanded.sizes = {2};
  expanded.strides = {0};
  Model model = model_of({{"a", kTwo}});
  const Status status = replace_weights(model, {{"a", expanded}}, "w.pt");
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), ::testing::StartsWith("w.pt: a: a parameter whose elements overlap"));
}

}  // namespace
}  // namespace ravnest::ir
