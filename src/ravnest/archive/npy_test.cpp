#include "ravnest/archive/npy.h"

#include "ravnest/archive/testing/files.h"
#include "ravnest/base/file.h"
#include "ravnest/base/testing/folders.h"

namespace ravnest::archive {
namespace {

using testing::expect_failure;
using testing::npy;
using testing::npy_of;
using testing::numbers;
using testing::raw;
using testing::slice;

using NpyFileTest = test::FolderTest;
using Shape = std::vector<std::int64_t>;

Result<Array> decoded(std::string_view file) { return decode_npy(slice(file), "x.npy"); }

// numpy.save(file, numpy.array([[1, 2, 3], [4, 5, 6.5]], dtype="<f4")), byte for byte.
const std::string kFromNumpy =
    std::string("\x93NUMPY\x01\x00v\x00", 10) + "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" +
    std::string(58, ' ') + "\n" +
    std::string("\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@\x00\x00\xd0@", 24);

TEST(Npy, WhatNumpyWroteIsRead) {
  const Result<Array> array = decoded(kFromNumpy);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->dtype, DType::kFloat32);
  EXPECT_EQ(array->shape, (Shape{2, 3}));
  EXPECT_EQ(numbers<float>(*array), (std::vector<float>{1, 2, 3, 4, 5, 6.5}));
}

TEST_F(NpyFileTest, MappedFileOutlivesItsName) {
  ASSERT_EQ(write_file_atomically(folder_ / "x.npy", kFromNumpy), Status());
  const Result<Array> array = read_npy(folder_ / "x.npy");
  ASSERT_TRUE(array.ok()) << array.status();
  std::filesystem::remove(folder_ / "x.npy");
  EXPECT_EQ(numbers<float>(*array).back(), 6.5F);
  expect_failure(read_npy(folder_ / "x.npy"), Code::kNotFound, "x.npy");
}

TEST(Npy, EveryVersionAndElementTypeIsRead) {
  for (const char version : {1, 2, 3}) {
    const auto array =
        decoded(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", raw<std::int64_t>({-1, 7}), version));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(numbers<std::int64_t>(*array), (std::vector<std::int64_t>{-1, 7}));
  }
  const std::vector<std::pair<std::string, DType>> kinds = {
      {"|b1", DType::kBool},    {"|u1", DType::kUInt8},   {"|i1", DType::kInt8},      {"<u2", DType::kUInt16},
      {"<i2", DType::kInt16},   {"<u4", DType::kUInt32},  {"<i4", DType::kInt32},     {"<u8", DType::kUInt64},
      {"<f2", DType::kFloat16}, {"<f8", DType::kFloat64}, {"<c8", DType::kComplex64}, {"<c16", DType::kComplex128}};
  for (const auto& [descr, dtype] : kinds) {
    const auto array = decoded(npy_of(descr, "(3, 1)", std::string(3 * item_size(dtype), '\1')));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->dtype, dtype) << descr;
  }
}

TEST(Npy, ScalarsAndEmptyArraysHaveTheirShapes) {
  EXPECT_EQ(decoded(npy_of("<f4", "()", std::string(4, '\0')))->shape, Shape());
  const auto empty = decoded(npy_of("<f4", "(0, 5)", ""));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->shape, (Shape{0, 5}));
}

TEST(Npy, DataBehindAnOddHeaderAreAligned) {
  std::string file("\x93NUMPY\x01\x00\x3b\x00", 10);
  file += "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n\n" + raw<double>({0.5});
  const auto array = decoded(file);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array->bytes.bytes.data()) % 8, 0U);
  EXPECT_EQ(numbers<double>(*array), std::vector<double>{0.5});
}

TEST(Npy, WhatIsNotReadSaysWhatToDo) {
  expect_failure(decoded(npy_of(">f4", "(1,)", "1234")), Code::kUnsupported, "array.astype(\"<f4\")");
  expect_failure(decoded(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "1234")), Code::kUnsupported,
                 "numpy.ascontiguousarray");
  expect_failure(decoded(npy_of("|O", "(1,)", "12345678")), Code::kUnsupported, "not plain numbers");
  expect_failure(decoded(npy_of("<U3", "(1,)", "123456789012")), Code::kUnsupported, "not plain numbers");
  expect_failure(decoded(npy("{'descr': [('a', '<i4'), ('b', '<f8')], 'fortran_order': False, 'shape': (1,), }", "")),
                 Code::kUnsupported, "holds records");
  expect_failure(decoded(npy("{}", "", 4)), Code::kUnsupported, "version 4");
}

TEST(Npy, ContradictionsAreCorruptAndNameTheFile) {
  const std::string valid = npy_of("<f4", "(2, 3)", std::string(24, '\0'));
  for (std::size_t size = 0; size < valid.size(); ++size)
    expect_failure(decoded(valid.substr(0, size)), Code::kCorrupt, "x.npy");
  expect_failure(decoded(valid + "x"), Code::kCorrupt, "float32 [2, 3] in 24 bytes, and there are 25 from byte 128");
  expect_failure(decoded("PK\x03\x04 something else"), Code::kCorrupt, "numpy.save writes one");
  expect_failure(decoded(npy_of("|b1", "(3,)", std::string("\0\1\2", 3))), Code::kCorrupt, "byte 130 is 2");
}

TEST(Npy, HeadersThatLieAboutTheirSizeCostNothing) {
  expect_failure(decoded(npy_of("<f4", "(9223372036854775807, 2)", "")), Code::kCorrupt, "no file holds");
  expect_failure(decoded(npy_of("<f4", "(0, 4611686018427387904, 4)", "")), Code::kCorrupt, "no file holds");
  expect_failure(decoded(npy_of("<f4", "(1000000000,)", "")), Code::kCorrupt, "and there are 0");
  expect_failure(decoded(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)), Code::kCorrupt, "claims to be");
}

TEST(Npy, BrokenHeadersNameTheCharacter) {
  const std::vector<std::string> broken = {
      "",
      "{",
      "['descr']",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1) }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,) }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,) }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,) }",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,) }",
      "{'descr': '<f4' 'fortran_order': False, 'shape': (1,) }",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,) }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
      "{'descr': [[('a', '<i4')], 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '', 'fortran_order': False, 'shape': (1,)}"};
  for (const std::string& header : broken)
    expect_failure(decoded(npy(header, "1234")), Code::kCorrupt, "x.npy: character ");
  expect_failure(decoded(npy("{'descr': '<f4', 'shape': (1,)}", "1234")), Code::kCorrupt, "lacks");
  expect_failure(decoded(npy("{'descr': '?f4', 'fortran_order': False, 'shape': (1,)}", "1234")), Code::kCorrupt,
                 "not an element type");
}

}  // namespace
}  // namespace ravnest::archive
