#include "ravnest/archive/pickle/state_dict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/archive/testing/payloads.h"
#include "ravnest/archive/zip.h"
#include "ravnest/base/testing/folders.h"

namespace ravnest::archive {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::float_payload;
using ::testing::HasSubstr;
using testing::payload_of;

Result<std::map<std::string, std::string>> records_of(const NamedPayloads& tensors) {
  ByteWriter out;
  if (const Status status = write_state_dict(tensors, "m", testing::into(out)); !status.ok()) return status;
  const ZipReader zip = ZipReader::open(out.bytes()).value();
  std::map<std::string, std::string> records;
  for (const std::string& name : zip.names()) records[name] = as_string_view(zip.record(name).value());
  return records;
}

// What `torch.load` is known to read; pickletools.dis explains the pickle byte by byte.
TEST(StateDict, RecordsAreThoseOfTorch) {
  Payload weight = payload_of<std::uint8_t>(DType::kBool, {2}, {1, 0});
  const auto records = records_of({{"a.w", weight}});
  ASSERT_TRUE(records.ok()) << records.status();
  const std::map<std::string, std::string> expected = {
      {"m/data.pkl",
       "\x80\x02"
       "ccollections\nOrderedDict\n)R(X\x03\0\0\0a.w"
       "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nBoolStorage\nX\x01\0\0\0\x30X\x03\0\0\0"
       "cpuJ\x02\0\0\0tQJ\0\0\0\0(J\x02\0\0\0t(J\x01\0\0\0t\x89"
       "ccollections\nOrderedDict\n)RtRu."s},
      {"m/byteorder", "little"},
      {"m/data/0", "\x01\0"s},
      {"m/version", "3\n"}};
  EXPECT_EQ(*records, expected);
}

TEST(StateDict, TensorsThatShareAStorageShareItInTheFile) {
  const Payload tied = float_payload({2}, {1, 2});
  Payload view = tied;
  view.sizes = {1};
  view.storage_offset = 1;
  const auto records = records_of({{"a", tied}, {"other", float_payload({1}, {3})}, {"b", tied}, {"view", view}});
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->at("m/data/0").size(), 8U);
  EXPECT_EQ(records->at("m/data/1").size(), 4U);
  EXPECT_FALSE(records->contains("m/data/2"));
}

TEST(StateDict, TensorAloneOnALargerStorageIsWrittenWithoutTheRest) {
  Payload window = float_payload({2}, {1, 2, 3, 4});
  window.storage_offset = 1;
  const auto records = records_of({{"a", window}, {"nothing", float_payload({0}, {})}});
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->at("m/data/0"), "\0\0\0\x40\0\0\x40\x40"s);
  EXPECT_EQ(records->at("m/data/1"), "");
}

TEST(StateDict, OtherDictsOfTensorsCanBeWritten) {
  ByteWriter out;
  const PickleBody body = [](PickleWriter& pickle, const std::function<void(std::size_t)>& tensor) {
    pickle.begin_dict();
    pickle.string("step");
    pickle.integer(3);
    pickle.string("exp_avg");
    tensor(0);
    pickle.end_dict();
  };
  ASSERT_EQ(write_torch_file({{"exp_avg", float_payload({1}, {1})}}, body, "o", testing::into(out)), Status());
  const ZipReader zip = ZipReader::open(out.bytes()).value();
  EXPECT_THAT(std::string(as_string_view(zip.record("o/data.pkl").value())),
              AllOf(::testing::StartsWith("\x80\x02}(X\x04\0\0\0stepJ\x03\0\0\0X\x07\0\0\0exp_avgctorch._utils"s),
                    ::testing::EndsWith("u.")));
}

TEST(StateDict, WhatTorchWouldNotReadIsRefusedBeforeAnythingIsWritten) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "x.pt";
  const Payload one = float_payload({1}, {1});
  Payload as_integer = one;
  as_integer.dtype = DType::kInt32;
  EXPECT_EQ(write_state_dict(path, {{"x", one}, {"x", one}}).code(), Code::kInvalid);
  EXPECT_EQ(write_state_dict(path, {{"\xff", one}}).code(), Code::kInvalid);
  const Status unsigned_type = write_state_dict(path, {{"x", payload_of<double>(DType::kUInt16, {1}, {1})}});
  EXPECT_EQ(unsigned_type.code(), Code::kUnsupported);
  EXPECT_THAT(unsigned_type.message(), AllOf(HasSubstr("x.pt"), HasSubstr("\"x\""), HasSubstr("uint16")));
  EXPECT_EQ(write_state_dict(path, {{"x", one}, {"y", as_integer}}).code(), Code::kUnsupported);
  EXPECT_TRUE(test::contents_of(folder.path()).empty());
}

}  // namespace
}  // namespace ravnest::archive
