#include "ravnest/graph/ir/archive/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/archive/zip.h"
#include "ravnest/base/file.h"
#include "ravnest/base/json.h"
#include "ravnest/graph/ir/archive/archive_layout.h"
#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/graph/ir/verify.h"

namespace ravnest::ir {
namespace {

using archive::testing::float_payload;
using archive::testing::storage_of;
using nlohmann::json;
using testing::affine;
using testing::bytes_of;
using ::testing::ElementsAre;
using testing::fixed;
using testing::golden;
using ::testing::HasSubstr;
using testing::holder;
using ::testing::IsEmpty;
using testing::ModelBuilder;
using testing::read_back;
using testing::shown;

Model through_archive(const Model& model) {
  const Result<std::vector<std::byte>> bytes = bytes_of(model);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  Result<Model> again = read_back(*bytes);
  EXPECT_TRUE(again.ok()) << again.status();
  return std::move(*again);
}

const archive::Payload& weight(const Model& model, const std::string& name) {
  return *find_payload(model, name, InputKind::kParameter, true);
}

// The archive with one record's JSON changed, its checksum right.
template <class Change>
Status failure_with(const Model& model, const std::string& record, Change&& change) {
  const std::vector<std::byte> bytes = bytes_of(model).value();
  const archive::ZipReader zip = archive::ZipReader::open(bytes).value();
  ByteWriter out;
  archive::ZipWriter writer([&](ByteSpan part) {
    out.bytes(part);
    return Status();
  });
  for (const std::string& name : zip.names()) {
    std::string contents(as_string_view(zip.record(name).value()));
    if (name == "model/" + record) {
      json document = json::parse(contents);
      change(document);
      contents = document.dump();
    }
    EXPECT_TRUE(writer.add(name, contents).ok());
  }
  EXPECT_TRUE(writer.finish().ok());
  const Result<Model> read = read_back(out.take());
  EXPECT_FALSE(read.ok()) << "was read";
  return read.status();
}

TEST(Archive, WhatIsWrittenReadsBackTheSame) {
  const Model model = affine();
  const Model again = through_archive(model);
  EXPECT_EQ(shown(again), shown(model));
  EXPECT_TRUE(archive::testing::same_elements(again.weights, model.weights));
}

TEST(Archive, EqualModelsGiveEqualBytes) {
  EXPECT_EQ(bytes_of(affine()).value(), bytes_of(affine()).value());
  EXPECT_EQ(bytes_of(through_archive(affine())).value(), bytes_of(affine()).value());
}

TEST(Archive, OnDiskItIsMappedAndStaysReadableAfterTheFileIsReplaced) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "ravnest_archive_test.pt2";
  ASSERT_TRUE(write_archive(affine(), path).ok());
  const Result<Model> read = read_archive(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(write_archive(affine(float_payload({2}, {8, 9})), path).ok());
  EXPECT_EQ(archive::testing::elements(weight(*read, "fc.w")), archive::testing::elements(float_payload({2}, {3, 4})));
  EXPECT_EQ(archive::testing::elements(weight(read_archive(path).value(), "fc.w")),
            archive::testing::elements(float_payload({2}, {8, 9})));
  std::filesystem::remove(path);
  EXPECT_EQ(read_archive(path).status().code(), Code::kNotFound);
}

TEST(Archive, AModelThatIsMalformedIsNotWritten) {
  Model model = affine();
  model.train.outputs = {Ref{99}};
  const auto path = std::filesystem::path(::testing::TempDir()) / "ravnest_archive_malformed.pt2";
  EXPECT_EQ(write_archive(model, path).code(), Code::kCorrupt);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Archive, TheTrainingAndTheEvalGraphStayApart) {
  Model model = affine();
  model.eval.operators[1].target = "torch.ops.aten.sub.Tensor";
  const Model again = through_archive(model);
  EXPECT_EQ(again.train.operators[1].target, "torch.ops.aten.add.Tensor");
  EXPECT_EQ(again.eval.operators[1].target, "torch.ops.aten.sub.Tensor");
}

TEST(Archive, TiedWeightsStayTied) {
  const auto storage = storage_of<float>({1, 2, 3, 4});
  const archive::Payload tied = {DType::kFloat32, {4}, {1}, 0, true, true, storage};
  const Model again = through_archive(holder({{"a", tied}, {"b", float_payload({1}, {0})}, {"c", tied}}));
  EXPECT_TRUE(archive::same_tensor(weight(again, "a"), weight(again, "c")));
  EXPECT_FALSE(archive::same_tensor(weight(again, "a"), weight(again, "b")));
}

TEST(Archive, WindowsOnOneStorageKeepSharingIt) {
  const auto storage = storage_of<float>({1, 2, 3, 4, 5, 6});
  const archive::Payload front = {DType::kFloat32, {2}, {1}, 0, true, true, storage};
  const archive::Payload column = {DType::kFloat32, {3}, {2}, 1, true, true, storage};
  const Model again = through_archive(holder({{"front", front}, {"column", column}}));
  EXPECT_EQ(weight(again, "front").storage, weight(again, "column").storage);
  EXPECT_EQ(archive::testing::elements(weight(again, "column")),
            archive::testing::elements(float_payload({3}, {2, 4, 6})));
}

TEST(Archive, ATensorAloneOnALargerStorageIsWrittenWithoutTheRest) {
  const archive::Payload part = {DType::kFloat32, {2}, {1}, 1, true, true, storage_of(std::vector<float>(1000, 7))};
  const Model again = through_archive(holder({{"part", part}}));
  EXPECT_EQ(weight(again, "part").storage->bytes.size(), 8U);
  EXPECT_EQ(weight(again, "part").storage_offset, 0);
  EXPECT_EQ(archive::testing::elements(weight(again, "part")), archive::testing::elements(part));
}

TEST(Archive, AStridedWindowAloneOnItsStorageKeepsItsStrides) {
  const archive::Payload turned = {
      DType::kFloat32, {2, 2}, {1, 3}, 1, true, true, storage_of<float>({0, 1, 2, 3, 4, 5})};
  const Model again = through_archive(holder({{"turned", turned}}));
  EXPECT_EQ(weight(again, "turned").strides, turned.strides);
  EXPECT_EQ(archive::testing::elements(weight(again, "turned")), archive::testing::elements(turned));
}

TEST(Archive, EmptyTensorsAreKeptAndNeverTied) {
  const auto storage = storage_of<float>({1, 2, 3});
  const archive::Payload empty = {DType::kFloat32, {0, 3}, {3, 1}, 0, false, true, storage};
  archive::Payload beyond = empty;
  beyond.storage_offset = 1000;  // of no element, so nowhere
  const archive::Payload one = {DType::kFloat32, {1}, {1}, 0, true, true, storage};
  const Model model = holder({{"one", one}, {"empty", empty}, {"beyond", beyond}, {"two", one}});
  const Model again = through_archive(model);
  EXPECT_EQ(weight(again, "empty").sizes, empty.sizes);
  EXPECT_FALSE(archive::same_tensor(weight(again, "empty"), weight(again, "beyond")));
  EXPECT_TRUE(archive::same_tensor(weight(again, "one"), weight(again, "two")))
      << "an empty one between them changes nothing";
  EXPECT_EQ(weight(again, "one").storage->bytes.size(), 4U) << "nor does it keep the rest of a storage in the file";
  EXPECT_EQ(bytes_of(again).value(), bytes_of(model).value());
}

TEST(Archive, EmptySizesWhoseProductWouldOverflowAreNotMultiplied) {
  const std::int64_t huge = std::int64_t{1} << 62;
  const archive::Payload strange = {DType::kFloat32, {0, 2, huge}, {0, huge, 1}, 0, false, true, storage_of<float>({})};
  ASSERT_TRUE(check(strange).ok()) << check(strange);
  EXPECT_EQ(weight(through_archive(holder({{"strange", strange}})), "strange").sizes, strange.sizes);
}

TEST(Archive, AStageKeepsItsPlacesAndItsRouting) {
  Model model = affine();
  model.train.operators[0].place = 17;
  model.train.operators[1].place = -1;
  model.stage = StageInfo{1, 3, {{{0, 2}}, {{2}}, {{1, 2}, {}}, {1}}, {{{-1, 0}}, {{}}}, {{"fc.w", {0, 1}}}};
  const Model again = through_archive(model);
  EXPECT_EQ(shown(again), shown(model));
  EXPECT_EQ(again.train.operators[0].place, 17);
  EXPECT_EQ(again.stage->train.inputs[0], (Source{0, 2}));
  EXPECT_EQ(again.stage->tied.at("fc.w"), (std::vector<std::int32_t>{0, 1}));
}

TEST(Archive, PrecisionsThatWereCheckedAtTheCaptureArePreserved) {
  Model model = affine();
  EXPECT_THAT(through_archive(model).checked_precisions, IsEmpty());
  model.checked_precisions = {"bf16", "fp16"};
  EXPECT_THAT(through_archive(model).checked_precisions, ElementsAre("bf16", "fp16"));
}

TEST(Archive, StageMetadataThatContradictsTheGraphIsAnError) {
  Model model = affine();
  model.stage = StageInfo{0, 2, {{{-1, 0}}, {{1}}}, {{{-1, 0}}, {{1}}}, {}};
  const auto failure = [&](auto&& change) { return failure_with(model, kMetadata, change).message(); };
  EXPECT_THAT(failure([](json& m) { m["stage"]["index"] = 2; }), HasSubstr("number is not below their count"));
  EXPECT_THAT(failure([](json& m) { m["stage"]["count"] = std::int64_t{1} << 40; }), HasSubstr("out of range"));
  EXPECT_THAT(failure([](json& m) { m["stage"]["train"]["inputs"] = json::array(); }), HasSubstr("as many routes"));
  EXPECT_THAT(failure([](json& m) { m["train_places"].push_back(5); }), HasSubstr("more places than operators"));
  EXPECT_THAT(failure([](json& m) { m["eval_places"] = json::array(); }), HasSubstr("fewer places than operators"));
  EXPECT_THAT(failure([](json& m) { m["format"] = 2; }), HasSubstr("format 2; this version of ravnest reads 1"));
}

TEST(Archive, APickledWeightIsRefusedByName) {
  const Status status =
      failure_with(affine(), kWeightsConfig, [](json& c) { c["config"]["fc.w"]["use_pickle"] = true; });
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("tensor \"fc.w\" is stored as a pickle"));
}

TEST(Archive, AParameterThatOverlapsItselfIsRefused) {
  const Status status = failure_with(affine(), kWeightsConfig, [](json& c) {
    c["config"]["fc.w"]["tensor_meta"]["sizes"][0]["as_int"] = 1000000;
    c["config"]["fc.w"]["tensor_meta"]["strides"][0]["as_int"] = 0;
  });
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("\"fc.w\": a parameter whose elements overlap"));
}

TEST(Archive, TensorsThatLieOutsideOfTheirFileAreErrors) {
  const auto failure = [](const char* member, std::int64_t value) {
    return failure_with(affine(), kWeightsConfig, [&](json& c) {
      json& field = c["config"]["fc.w"]["tensor_meta"][member];
      (field.is_array() ? field[0] : field)["as_int"] = value;
    });
  };
  EXPECT_THAT(failure("sizes", 3).message(), HasSubstr("reaches element 2 of a storage of 2"));
  EXPECT_THAT(failure("sizes", INT64_MAX).message(), HasSubstr("reaches element"));
  EXPECT_THAT(failure("strides", 2).message(), HasSubstr("reaches element 2"));
  EXPECT_THAT(failure("strides", INT64_MAX).message(), HasSubstr("reaches element"));
  EXPECT_THAT(failure("storage_offset", 1).message(), HasSubstr("reaches element 2"));
  EXPECT_THAT(failure("storage_offset", INT64_MAX).message(), HasSubstr("beyond any memory"));
  for (const char* member : {"sizes", "strides", "storage_offset"})
    EXPECT_THAT(failure(member, -1).message(), HasSubstr("negative"));
}

TEST(Archive, AStoredTensorOfAnotherKindThanTheGraphSaysIsAnError) {
  const auto config = [](auto&& change) { return failure_with(affine(), kWeightsConfig, change).message(); };
  EXPECT_THAT(config([](json& c) { c["config"]["fc.b"]["tensor_meta"]["dtype"] = 4; }),
              HasSubstr("differ in type or size"));
  EXPECT_THAT(config([](json& c) { c["config"]["fc.b"]["tensor_meta"]["dtype"] = 99; }),
              HasSubstr("unknown element type number 99"));
  EXPECT_THAT(config([](json& c) { c["config"]["fc.b"]["tensor_meta"]["layout"] = 1; }), HasSubstr("only strided"));
  EXPECT_THAT(config([](json& c) { c["config"].erase("fc.b"); }),
              HasSubstr("\"fc.b\" is used by the graph but not stored"));
  EXPECT_THAT(config([](json& c) { c["config"]["fc.b"]["path_name"] = "weight_9"; }), HasSubstr("weight_9"));
  EXPECT_THAT(config([](json& c) {
                c["config"]["n"] = c["config"]["fc.b"];
                c["config"]["n"]["tensor_meta"]["dtype"] = 4;
                c["config"]["n"]["tensor_meta"]["requires_grad"] = true;
              }),
              HasSubstr("a gradient is asked for int32"));
}

TEST(Archive, BytesInTheOtherOrderAreRefused) {
  Model model = affine();
  const std::vector<std::byte> bytes = bytes_of(model).value();
  const archive::ZipReader zip = archive::ZipReader::open(bytes).value();
  ByteWriter out;
  archive::ZipWriter writer([&](ByteSpan part) {
    out.bytes(part);
    return Status();
  });
  for (const std::string& name : zip.names()) {
    const std::string contents(as_string_view(zip.record(name).value()));
    ASSERT_TRUE(writer.add(name, name == "model/byteorder" ? "big" : contents).ok());
  }
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_THAT(read_back(out.take()).status().message(), HasSubstr("byte order \"big\""));
}

TEST(Archive, AZipThatIsNoModelSaysWhatWouldBeOne) {
  ByteWriter out;
  archive::ZipWriter writer([&](ByteSpan part) {
    out.bytes(part);
    return Status();
  });
  ASSERT_TRUE(writer.add("a.txt", std::string_view("hello")).ok());
  ASSERT_TRUE(writer.finish().ok());
  const Status status = read_back(out.take()).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("write one with ravnest.capture or torch.export.save"));
}

TEST(Archive, AnErrorIsTextWhateverTheArchiveCallsThings) {
  ByteWriter out;
  archive::ZipWriter writer([&](ByteSpan part) {
    out.bytes(part);
    return Status();
  });
  ASSERT_TRUE(writer.add("\xff\x1b[31m", std::string_view("1")).ok());
  ASSERT_TRUE(writer.add("\xff\x1b[31m", std::string_view("2")).ok());
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_EQ(read_back(out.take()).status().message(), "archive: record ??[31m is there twice");
}

TEST(Archive, CutShortAnywhereItIsAnError) {
  const std::vector<std::byte> good = bytes_of(affine()).value();
  for (std::size_t size = 0; size < good.size(); size += 3)
    EXPECT_FALSE(read_back({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}).ok()) << size;
}

// The zip's own tests flip every bit; here every fifth byte is enough to meet every record and header.
TEST(Archive, WithAFlippedBitItIsAnErrorOrTheSameModel) {
  std::vector<std::byte> bytes = bytes_of(affine()).value();
  const std::string expected = shown(affine());
  for (std::size_t i = 0; i < bytes.size(); i += 5) {
    const std::byte bit = std::byte{1} << (i % 8);
    bytes[i] ^= bit;
    const Result<Model> read = read_back(bytes);
    if (read.ok()) {
      EXPECT_EQ(shown(*read), expected) << "byte " << i;
      EXPECT_TRUE(archive::testing::same_elements(read->weights, affine().weights)) << "byte " << i;
    }
    bytes[i] ^= bit;
  }
}

class Golden : public ::testing::TestWithParam<const char*> {};

TEST_P(Golden, IsReadAndComesThroughOurWriterUnchanged) {
  const Result<Model> model = read_archive(golden(GetParam()));
  ASSERT_TRUE(model.ok()) << model.status();
  const Model again = through_archive(*model);
  EXPECT_EQ(shown(again), shown(*model));
  EXPECT_TRUE(archive::testing::same_elements(again.weights, model->weights));
  EXPECT_TRUE(archive::testing::same_elements(again.constants, model->constants));
}

INSTANTIATE_TEST_SUITE_P(Archive, Golden, ::testing::Values("normalised", "tied", "masked", "windowed"),
                         [](const auto& each) { return std::string(each.param); });

TEST(GoldenArchive, WeightsComeInTheOrderOfTheStateDict) {
  const Model model = read_archive(golden("normalised")).value();
  std::vector<std::string> names;
  for (const auto& [name, payload] : model.weights) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("fc.weight", "fc.bias", "norm.weight", "norm.bias", "norm.running_mean",
                                            "norm.running_var", "norm.num_batches_tracked"));
}

TEST(GoldenArchive, ATiedEmbeddingIsOneTensorAndABufferOutsideOfTheStateDictIsAConstant) {
  const Model model = read_archive(golden("tied")).value();
  EXPECT_TRUE(archive::same_tensor(weight(model, "embed.weight"), weight(model, "head.weight")));
  ASSERT_EQ(model.constants.size(), 1U);
  EXPECT_EQ(model.constants[0].first, "shift");
  EXPECT_EQ(archive::testing::elements(model.constants[0].second),
            archive::testing::elements(float_payload({4}, {0, 1, 2, 3})));
}

TEST(GoldenArchive, AWindowOnALargerStorageShowsItsElements) {
  const Model model = read_archive(golden("windowed")).value();
  EXPECT_EQ(archive::testing::elements(weight(model, "window")),
            archive::testing::elements(float_payload({2, 4}, {1, 4, 7, 10, 2, 5, 8, 11})));
  EXPECT_EQ(archive::element_count(weight(model, "nothing")), 0);
}

TEST(GoldenArchive, MinusInfinityAndAFixedSizeComeThrough) {
  const Model model = read_archive(golden("masked")).value();
  bool found = false;
  for (const Operator& op : model.train.operators) {
    for (const NamedArgument& input : op.inputs)
      found = found || input.value == Argument(-std::numeric_limits<double>::infinity());
  }
  EXPECT_TRUE(found);
  EXPECT_THAT(model.train.outputs, ::testing::Contains(Argument(std::int64_t{5})));
}

}  // namespace
}  // namespace ravnest::ir
