#include "ravnest/archive/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/archive/testing/payloads.h"
#include "ravnest/base/testing/folders.h"

namespace ravnest::archive {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::float_payload;
using testing::floats_of;
using ::testing::HasSubstr;
using testing::payload_of;

Result<std::string> written(const Safetensors& contents) {
  ByteWriter out;
  const Status status = write_safetensors(contents, testing::into(out));
  if (!status.ok()) return status;
  return std::string(as_string_view(out.bytes()));
}

Result<Safetensors> read(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return read_safetensors(as_byte_span(*owner), owner, "FILE");
}

// A file with this header, padded or not, and so many zeros behind it.
std::string file(const std::string& header, std::size_t data) {
  ByteWriter out;
  out.u64(header.size());
  out.string(header);
  out.string(std::string(data, '\0'));
  return std::string(as_string_view(out.bytes()));
}

Status refusal(const std::string& header, std::size_t data) { return read(file(header, data)).status(); }

TEST(Safetensors, BytesAreThoseOfTheFormat) {
  const Safetensors contents{
      {{"k", "v"}},
      {{"b", payload_of<std::uint8_t>(DType::kUInt8, {2}, {1, 2})}, {"a", float_payload({1, 2}, {1.0F, 2.0F})}}};
  EXPECT_EQ(written(contents).value(),
            "\x88\0\0\0\0\0\0\0"s +
                R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)" +
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[8,10]}})" + "  "s + "\0\0\x80\x3f\0\0\0\x40\x01\x02"s);
}

TEST(Safetensors, AllTypesAndShapesComeThrough) {
  const std::vector<std::int64_t> some{-1, 0, 77, INT64_MIN};
  Safetensors contents{{{"plan", "\"quoted\" \n text"}, {"empty", ""}}, {}};
  for (const DType dtype : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                            DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64})
    contents.tensors.emplace_back(dtype_name(dtype), payload_of(dtype, {2, 2}, some));
  contents.tensors.emplace_back("scalar \xc3\xa9", float_payload({}, {3}));
  contents.tensors.emplace_back("nothing", float_payload({3, 0}, {}));
  const Result<Safetensors> again = read(written(contents).value());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->metadata, contents.metadata);
  ASSERT_EQ(again->tensors.size(), contents.tensors.size());
  for (const auto& [name, payload] : contents.tensors) {
    const auto found = std::find_if(again->tensors.begin(), again->tensors.end(),
                                    [&, &wanted = name](const auto& entry) { return entry.first == wanted; });
    ASSERT_NE(found, again->tensors.end()) << name;
    EXPECT_EQ(found->second.dtype, payload.dtype) << name;
    EXPECT_EQ(found->second.sizes, payload.sizes) << name;
    EXPECT_TRUE(is_contiguous(found->second)) << name;
    EXPECT_EQ(testing::elements(found->second), testing::elements(payload)) << name;
    const auto at = reinterpret_cast<std::uintptr_t>(found->second.storage->bytes.data());
    EXPECT_TRUE(at % item_size(payload.dtype) == 0 || element_count(payload) == 0) << name;
  }
}

TEST(Safetensors, StridedTensorsAreWrittenRowByRow) {
  Payload transposed = float_payload({3, 2}, {1, 2, 3, 4, 5, 6});
  transposed.strides = {1, 3};
  Payload window = float_payload({2, 2}, {1, 2, 3, 4, 5, 6});
  window.strides = {3, 1};
  window.storage_offset = 1;
  Payload expanded = float_payload({2, 2}, {8});
  expanded.strides = {0, 0};
  const Result<Safetensors> again = read(written({{}, {{"t", transposed}, {"w", window}, {"e", expanded}}}).value());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(testing::names_of(again->tensors), ElementsAre("t", "w", "e"));
  EXPECT_THAT(floats_of(again->tensors[0].second), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(floats_of(again->tensors[1].second), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(floats_of(again->tensors[2].second), ElementsAre(8, 8, 8, 8));
}

TEST(Safetensors, StridedTensorLargerThanTheBufferComesThrough) {
  const std::int64_t rows = 700;
  const std::int64_t columns = 900;
  std::vector<float> values(rows * columns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  Payload transposed = float_payload({columns, rows}, values);
  transposed.strides = {1, columns};
  const Result<Safetensors> again = read(written({{}, {{"t", transposed}}}).value());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(floats_of(again->tensors[0].second) == floats_of(transposed));
}

TEST(Safetensors, WhatTheFileCannotHaveIsRefusedBeforeAnythingIsWritten) {
  const Payload one = float_payload({1}, {1});
  int calls = 0;
  const auto refused = [&](const Safetensors& contents) {
    return write_safetensors(contents, [&](ByteSpan) {
      ++calls;
      return Status();
    });
  };
  EXPECT_EQ(refused({{}, {{"x", one}, {"x", one}}}), invalid("tensor \"x\" is there twice"));
  EXPECT_EQ(refused({{}, {{"__metadata__", one}}}).code(), Code::kInvalid);
  EXPECT_EQ(refused({{}, {{"\xff", one}}}).code(), Code::kInvalid);
  EXPECT_EQ(refused({{{"k", "\xff"}}, {{"x", one}}}).code(), Code::kInvalid);
  const Status complex = refused({{}, {{"x", payload_of<double>(DType::kComplex64, {1}, {1})}}});
  EXPECT_EQ(complex.code(), Code::kUnsupported);
  EXPECT_THAT(complex.message(), AllOf(HasSubstr("\"x\""), HasSubstr("complex64")));
  EXPECT_EQ(refused({{}, {{"x", float_payload({2}, {1})}}}).code(), Code::kCorrupt) << "beyond its storage";
  EXPECT_EQ(calls, 0);
}

TEST(Safetensors, HeaderThatLiesIsCorruptAndTheMessageSaysWhere) {
  const auto tensor = [](const std::string& type, const std::string& shape, const std::string& offsets) {
    return R"({"t":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_EQ(refusal(tensor("F32", "[2]", "[0,8]"), 8), Status());
  const std::vector<std::pair<Status, std::string>> cases = {
      {read("1234567").status(), "only 7 bytes"},
      {read("\xff\xff\xff\xff\xff\xff\xff\xff{}"s).status(), "18446744073709551615 bytes, but the file ends after 2"},
      {refusal(" {}", 0), "does not start with {"},
      {refusal("{", 0), "not valid JSON at byte"},
      {refusal("{} {}", 0), "not valid JSON"},
      {refusal("{}", 1), "1 bytes behind the last tensor"},
      {refusal(R"({"t":1})", 0), "header.t: expected an object"},
      {refusal(R"({"__metadata__":{"k":1}})", 0), "header.__metadata__.k: expected a string"},
      {refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), "\"__metadata__\" stands twice"},
      {refusal(R"({"t":{"dtype":"F32","shape":[1]}})", 0), "no \"data_offsets\""},
      {refusal(tensor("F32", "[2]", "[0,9]"), 8), "0 to 9 does not lie within the 8 bytes"},
      {refusal(tensor("F32", "[2]", "[8,0]"), 8), "8 to 0 does not lie"},
      {refusal(tensor("F32", "[3]", "[0,8]"), 8), "8 bytes where the shape takes 12"},
      {refusal(tensor("F32", "[-2]", "[0,8]"), 8), "header.t.shape[0]: a negative number"},
      {refusal(tensor("F32", "[2]", "[-1,8]"), 8), "header.t.data_offsets[0]: a negative number"},
      {refusal(tensor("F32", "[2]", "[0,4,8]"), 8), "expected two numbers"},
      {refusal(tensor("F32", "[2.0]", "[0,8]"), 8), "expected a whole number"},
      {refusal(tensor("F32", "[2]", "[0,18446744073709551615]"), 8), "too large"},
      {refusal(tensor("F32", "[4611686018427387904,4]", "[0,0]"), 0), "sizes beyond any memory"},
      {refusal(tensor("F32", "[0,4611686018427387904,4]", "[0,0]"), 0), "sizes beyond any memory"},
      {refusal(tensor("F32", "[1]", "[4,8]"), 8), "header.t: starts at byte 4, 4 bytes behind"},
  };
  for (const auto& [status, words] : cases) {
    EXPECT_EQ(status.code(), Code::kCorrupt) << words;
    EXPECT_THAT(status.message(), AllOf(::testing::StartsWith("FILE: "), HasSubstr(words)));
  }
  const Status unknown = refusal(tensor("F8_E4M3", "[8]", "[0,8]"), 8);
  EXPECT_EQ(unknown.code(), Code::kUnsupported);
  EXPECT_THAT(unknown.message(), HasSubstr("header.t.dtype: \"F8_E4M3\""));
}

TEST(Safetensors, TensorsThatOverlapAreCorrupt) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
  EXPECT_EQ(refusal(header, 6), corrupt("FILE: header.b: starts at byte 2, within the tensor before it"));
}

TEST(Safetensors, EveryCutFileIsCorrupt) {
  const std::string whole = written({{{"k", "v"}}, {{"a", float_payload({2}, {1, 2})}}}).value();
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(read(whole.substr(0, size)).status().code(), Code::kCorrupt) << size;
}

TEST(Safetensors, FileOnDiskReadsBackAndOutlivesItsName) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "x.safetensors";
  ASSERT_EQ(write_safetensors(path, {{}, {{"a", float_payload({2}, {1, 2})}}}), Status());
  const Result<Safetensors> contents = read_safetensors(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_THAT(floats_of(contents->tensors[0].second), ElementsAre(1, 2));
  EXPECT_EQ(read_safetensors(path).status().code(), Code::kNotFound);
  EXPECT_EQ(write_safetensors(folder.path() / "no" / "x", {}).code(), Code::kNotFound);
}

}  // namespace
}  // namespace ravnest::archive
