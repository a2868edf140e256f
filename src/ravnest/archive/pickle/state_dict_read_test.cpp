#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/archive/pickle/state_dict.h"
#include "ravnest/archive/testing/files.h"
#include "ravnest/archive/testing/torch_files.h"

namespace ravnest::archive {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using namespace testing;  // NOLINT(google-build-using-namespace): files of torch.save, piece by piece

Result<NamedPayloads> read(std::string_view file, std::string_view entry = "") {
  const auto owner = std::make_shared<const Slice>(slice(file));
  return read_state_dict(owner->bytes, owner, "w.pt", entry);
}

void expect_refusal(const std::string& value, Code code, std::string_view words) {
  expect_failure(read(torch_file(value)), code, words);
}

Result<NamedPayloads> written_and_read(const NamedPayloads& tensors) {
  ByteWriter out;
  if (const Status status = write_state_dict(tensors, "m", into(out)); !status.ok()) return status;
  return read(as_string_view(out.bytes()));
}

TEST(StateDictRead, WhatWasWrittenComesBackWithTypesSizesAndTies) {
  const Payload tied = float_payload({2, 3}, {1, 2, 3, 4, 5, 6});
  Payload transposed = tied;
  transposed.sizes = {3, 2};
  transposed.strides = {1, 3};
  Payload view = tied;
  view.sizes = {2};
  view.strides = {1};
  view.storage_offset = 3;
  NamedPayloads tensors = {{"a", tied},
                           {"b", tied},
                           {"transposed", transposed},
                           {"view", view},
                           {"scalar", payload_of<std::int64_t>(DType::kInt64, {}, {7})},
                           {"empty", float_payload({3, 0}, {})},
                           {"name \xc3\xa4", payload_of<std::uint16_t>(DType::kBFloat16, {2}, {0x3f80, 0x4000})}};
  for (const DType dtype : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kFloat16,
                            DType::kFloat64, DType::kComplex64, DType::kComplex128})
    tensors.emplace_back(dtype_name(dtype),
                         payload_of<std::uint8_t>(dtype, {1}, std::vector<std::uint8_t>(item_size(dtype), 1)));
  const auto back = written_and_read(tensors);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(shown(*back), shown(tensors));
  EXPECT_EQ(names_of(*back), names_of(tensors));
  EXPECT_TRUE(same_elements(*back, tensors));
  EXPECT_EQ(back->at(2).second.storage, back->at(0).second.storage) << "memory that was shared is shared again";
  EXPECT_EQ(back->at(2).second.strides, transposed.strides);
}

TEST(StateDictRead, AStateDictIsReadAsTorchWritesIt) {
  const auto tensors = read(torch_file(dict_of({{"w", TensorText()}})));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(names_of(*tensors), std::vector<std::string>{"w"});
  EXPECT_THAT(floats_of(tensors->at(0).second), ElementsAre(1, 2));
}

TEST(StateDictRead, ParametersAreTensorsToo) {
  const std::string end =
      "\x88"
      "ccollections\nOrderedDict\n)R";
  const std::string plain = "ctorch._utils\n_rebuild_parameter\n(" + std::string(TensorText()) + end + "tR";
  const std::string with_state =
      "ctorch._utils\n_rebuild_parameter_with_state\n(" + std::string(TensorText()) + end + "}tR";
  const auto tensors = read(torch_file(dict_of({{"a", plain}, {"b", with_state}})));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  for (const auto& [name, payload] : *tensors) {
    EXPECT_TRUE(payload.is_parameter && payload.requires_grad) << name;
    EXPECT_THAT(floats_of(payload), ElementsAre(1, 2));
  }
  expect_refusal(dict_of({{"a", "ctorch._utils\n_rebuild_parameter\n(" + plain + end + "tR"}}), Code::kCorrupt,
                 "is a call of torch._utils._rebuild_parameter");
}

TEST(StateDictRead, StoragesFromAGpuAndOfBytesAreRead) {
  const TensorText gpu = {.storage = storage_id("torch\nFloatStorage", "0", 2, "cuda:0")};
  const TensorText bytes = {.storage = storage_id("torch.storage\nUntypedStorage", "0", 8),
                            .more = "ctorch\nuint32\n",
                            .function = "ctorch._utils\n_rebuild_tensor_v3\n"};
  const auto tensors = read(torch_file(dict_of({{"gpu", gpu}, {"bytes", bytes}})));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_THAT(floats_of(tensors->at(0).second), ElementsAre(1, 2));
  EXPECT_EQ(tensors->at(1).second.dtype, DType::kUInt32);
}

TEST(StateDictRead, SizesMayBeATorchSize) {
  const auto tensors = read(torch_file(dict_of({{"w", TensorText{.sizes = "ctorch\nSize\nK\2\x85\x85R"}}})));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_THAT(tensors->at(0).second.sizes, ElementsAre(2));
}

TEST(StateDictRead, TheOnlyStateDictOfACheckpointIsMeant) {
  const std::string one = dict_of({{"w", TensorText()}});
  const std::string checkpoint = dict_of({{"epoch", "K\3"}, {"model", one}, {"history", "]"}, {"best", "N"}});
  const auto tensors = read(torch_file(checkpoint));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(names_of(*tensors), std::vector<std::string>{"w"});
  EXPECT_TRUE(read(torch_file(checkpoint), "model").ok());
  expect_failure(read(torch_file(checkpoint), "epoch"), Code::kInvalid,
                 "w.pt: has no state dict \"epoch\" among its entries; it has the state dict \"model\"");
}

TEST(StateDictRead, OfSeveralStateDictsOneHasToBeNamed) {
  const std::string file = torch_file(
      dict_of({{"model", dict_of({{"w", TensorText()}})}, {"ema", dict_of({{"v", TensorText()}})}, {"epoch", "K\3"}}));
  expect_failure(read(file), Code::kInvalid, "has the state dicts \"model\", \"ema\"; say which one is meant");
  const auto tensors = read(file, "ema");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(names_of(*tensors), std::vector<std::string>{"v"});
}

TEST(StateDictRead, WhatIsNoStateDictIsRefusedByWhatItIs) {
  expect_refusal("]", Code::kInvalid,
                 "w.pt: holds a list, not a state dict; save the weights alone: torch.save(model.");
  expect_refusal(TensorText(), Code::kInvalid, "holds a call of torch._utils._rebuild_tensor_v2");
  expect_refusal(dict_of({{"w", TensorText()}, {"n", "K\1"}}), Code::kInvalid,
                 "is no state dict: \"n\" is an integer, not a tensor");
  expect_refusal("}K\1" + std::string(TensorText()) + "s", Code::kInvalid, "a key is an integer");
  expect_refusal(dict_of({{"state", "}"}, {"param_groups", "]"}}), Code::kInvalid, "is an optimizer's state");
}

TEST(StateDictRead, NothingButTensorsIsMade) {
  expect_refusal("cos\nsystem\nX\4\0\0\0true\x85R"s, Code::kUnsupported, "names os.system");
  expect_refusal(dict_of({{"w", "c__main__\nNet\n)R"}}), Code::kUnsupported,
                 "names __main__.Net, which is not among the plain data that is read; save the weights alone");
  expect_refusal(dict_of({{"w", TensorText{.function = "ctorch._utils\n_rebuild_qtensor\n"}}}), Code::kUnsupported,
                 "torch._utils._rebuild_qtensor");
  expect_refusal(dict_of({{"w", "ctorch\nfloat32\n)R"}}), Code::kCorrupt, "is a call of torch.float32");
  expect_refusal(dict_of({{"w", TensorText{.more = dict_of({{"conj", "\x88"}})}}}), Code::kUnsupported,
                 "tensor \"w\": is a conjugated or negated view");
}

TEST(StateDictRead, TensorsThatContradictTheirStorageAreFound) {
  const auto refused = [](const TensorText& tensor, std::string_view words) {
    expect_refusal(dict_of({{"w", tensor}}), Code::kCorrupt, text("w.pt: tensor \"w\": ", words));
  };
  refused({.sizes = "K\3\x85"}, "reaches element 2 of a storage of 2");
  refused({.offset = "K\1"}, "reaches element 2 of a storage of 2");
  refused({.offset = "J\xff\xff\xff\xff"}, "a negative storage offset");
  refused({.sizes = "J\xff\xff\xff\xff\x85"}, "a negative size or stride");
  refused({.sizes = "J\xff\xff\xff\x7f\x8a\x08\0\0\0\0\0\0\0\x7f\x86"s, .strides = "K\1K\1\x86"},
          "sizes beyond any memory");
  refused({.strides = ")"}, "as many strides as sizes expected");
  refused({.sizes = "]"}, "a size is a list");
  refused({.sizes = "N\x85"}, "a size is None");
  refused({.sizes = "(" + std::string(200, '\x89') + "t"}, "has 200 dimensions");
  refused({.storage = "N"}, "its storage is None");
  refused({.storage = ")Q"}, "has no storage");
  refused({.storage = storage_id("torch\nFloatStorage", "0", 3)}, "its storage 0 should have 3 elements of 4 bytes");
  refused({.storage = storage_id("torch\nFloatStorage", "1", 2)}, "the archive has no record m/data/1");
  refused({.storage = storage_id("torch\nfloat32", "0", 2)}, "its storage is torch.float32");
  refused({.more = ")))"}, "calls torch._utils._rebuild_tensor_v2 with 9 arguments");
  expect_refusal(dict_of({{"w", TensorText()}, {"w", TensorText()}}), Code::kCorrupt, "\"w\" is there twice");
  expect_refusal(dict_of({{"\xff", TensorText()}}), Code::kCorrupt, "the name is not UTF-8");
}

TEST(StateDictRead, ADictThatIsItsOwnEntryIsNoTrouble) {
  expect_refusal("}q\0X\1\0\0\0ah\0s"s, Code::kInvalid, "\"a\" is a dict, not a tensor");
}

TEST(StateDictRead, FilesOfSomethingElseAreRefusedByWhatTheyAre) {
  expect_failure(read("\x80\2\x8a\x0al\xfc\x9c"
                      "F\xf9 j\xa8P\x19.\x80\2M\xe9\3."s),
                 Code::kUnsupported, "torch before 1.6");
  expect_failure(read(zip_of({{"models/model.json", "{}"}})), Code::kInvalid, "is a captured model");
  std::string compressed = zip_of({{"code/net.py", "x"}});
  for (const auto& [signature, offset] : {std::pair{"PK\3\4", 8}, {"PK\1\2", 10}})
    compressed[compressed.find(signature) + static_cast<std::size_t>(offset)] = 8;  // the method
  expect_failure(read(compressed), Code::kUnsupported,
                 "w.pt: record m/code/net.py is compressed (method 8); only stored records are read; torch.save "
                 "compresses nothing, but TorchScript models are");
  expect_failure(read(zip_of({{"x", "x"}})), Code::kInvalid, "a zip archive, but not one of torch.save");
  expect_failure(read(zip_of({{"data.pkl", pickle_of("}")}, {"byteorder", "big"}})), Code::kUnsupported,
                 "byte order \"big\"");
  expect_failure(read("PK\3\4"), Code::kCorrupt, "w.pt: ");
}

TEST(StateDictRead, ATruncatedFileIsFoundWhereverItEnds) {
  const std::string file = torch_file(dict_of({{"w", TensorText()}}));
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_FALSE(read(std::string_view(file).substr(0, size)).ok());
}

TEST(StateDictRead, ADamagedStorageIsFound) {
  std::string file = torch_file(dict_of({{"w", TensorText()}}));
  file[file.find(kTwoFloats)] ^= 1;
  expect_failure(read(file), Code::kCorrupt, "record m/data/0 is damaged");
}

}  // namespace
}  // namespace ravnest::archive
