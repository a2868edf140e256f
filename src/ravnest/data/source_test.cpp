#include "ravnest/data/source.h"

#include "ravnest/archive/testing/files.h"
#include "ravnest/base/file.h"
#include "ravnest/base/testing/folders.h"

namespace ravnest::data {
namespace {

using archive::testing::expect_failure;
using archive::testing::npy_of;
using archive::testing::numbers;
using archive::testing::raw;

class SourceTest : public test::FolderTest {
 protected:
  std::filesystem::path put(std::string_view name, std::string_view content) {
    EXPECT_EQ(write_file_atomically(folder_ / name, content), Status());
    return folder_ / name;
  }
  std::filesystem::path floats(std::string_view name, std::string_view shape, const std::vector<float>& values) {
    return put(name, npy_of("<f4", shape, raw(values)));
  }
  std::filesystem::path tensors(std::string_view name, std::string_view header, std::string_view elements) {
    ByteWriter file;
    file.u64(header.size() + 2);
    file.string(text("{", header, "}"));
    file.string(elements);
    return put(name, as_string_view(file.bytes()));
  }
};

TEST_F(SourceTest, SeveralFilesAreReadAsOne) {
  const auto a = floats("a.npy", "(1, 2)", {1, 2});
  const auto b = floats("b.npy", "(2, 2)", {3, 4, 5, 6});
  const auto y = floats("y.npy", "(3,)", {7, 8, 9});
  const auto samples = read_source({.format = "npy", .inputs = {a, b}, .targets = {y}});
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples->inputs.shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(numbers<float>(samples->inputs), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(numbers<float>(samples->targets), (std::vector<float>{7, 8, 9}));
}

TEST_F(SourceTest, FilesThatDoNotGoTogetherAreNamed) {
  const auto a = floats("a.npy", "(1, 2)", {1, 2});
  const auto b = floats("b.npy", "(1, 3)", {3, 4, 5});
  const auto c = put("c.npy", npy_of("|u1", "(1, 2)", "xy"));
  const auto single = floats("single.npy", "()", {1});
  expect_failure(read_source({.format = "npy", .inputs = {a, b}, .targets = {a}}), Code::kInvalid,
                 "b.npy behind " + a.string() + ": it holds float32 [1, 3], and the first float32 [1, 2]");
  expect_failure(read_source({.format = "npy", .inputs = {a, c}, .targets = {a}}), Code::kInvalid, "uint8 [1, 2]");
  expect_failure(read_source({.format = "npy", .inputs = {single}, .targets = {a}}), Code::kInvalid, "one number");
}

TEST_F(SourceTest, CountsThatDifferAreBothNamed) {
  const auto x = floats("x.npy", "(2, 1)", {1, 2});
  const auto y = floats("y.npy", "(3,)", {1, 2, 3});
  expect_failure(read_source({.format = "npy", .inputs = {x}, .targets = {y}}), Code::kInvalid,
                 "2 inputs in " + x.string() + ", and 3 targets in " + y.string());
}

TEST_F(SourceTest, OptionsThatMakeNoSenseAreRefused) {
  const auto x = floats("x.npy", "(1,)", {1});
  expect_failure(read_source({.format = "hdf5", .inputs = {x}, .targets = {x}}), Code::kInvalid,
                 "there are digits, idx, cifar10, npy, safetensors");
  expect_failure(read_source({.format = "npy", .inputs = {}, .targets = {x}}), Code::kInvalid, "need files of inputs");
  expect_failure(read_source({.format = "npy", .inputs = {x}, .targets = {}}), Code::kInvalid, "need files of targets");
  expect_failure(read_source({.format = "digits", .inputs = {x}, .targets = {x}}), Code::kInvalid, "leave out");
  expect_failure(read_source({.format = "digits", .inputs = {x, x}, .targets = {}}), Code::kInvalid, "one file, not 2");
}

TEST_F(SourceTest, TensorsAreFoundInSafetensorsByTheirName) {
  const auto both = tensors("both.safetensors",
                            R"("extra":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                            R"("inputs":{"dtype":"F32","shape":[2,1],"data_offsets":[1,9]},)"
                            R"("targets":{"dtype":"I64","shape":[2],"data_offsets":[9,25]})",
                            "x" + raw(std::vector<float>{1, 2}) + raw(std::vector<std::int64_t>{3, 4}));
  const auto samples = read_source({.format = "safetensors", .inputs = {both}, .targets = {both}});
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(numbers<float>(samples->inputs), (std::vector<float>{1, 2}));
  EXPECT_EQ(numbers<std::int64_t>(samples->targets), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(samples->inputs.bytes.bytes.data()) % sizeof(float), 0);
}

TEST_F(SourceTest, TheOnlyTensorOfAFileMayHaveAnyName) {
  const auto x = tensors("x.safetensors", R"("pixels":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]})",
                         raw(std::vector<float>{1, 2}));
  const auto two = tensors("two.safetensors",
                           R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})",
                           "xy");
  const auto samples = read_source({.format = "safetensors", .inputs = {x}, .targets = {x}});
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(numbers<float>(samples->targets), (std::vector<float>{1, 2}));
  expect_failure(read_source({.format = "safetensors", .inputs = {two}, .targets = {x}}), Code::kInvalid,
                 "two.safetensors holds the tensors a, b; it has to hold one, or one that is called \"inputs\"");
}

TEST_F(SourceTest, TruthValuesAreZeroOrOne) {
  const auto x = tensors("x.safetensors", R"("x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]})", "\x01\x02");
  expect_failure(read_source({.format = "safetensors", .inputs = {x}, .targets = {x}}), Code::kCorrupt,
                 "is 2, but truth values are 0 or 1");
}

TEST_F(SourceTest, FilesOfTheWrongFormatAreNamed) {
  const auto x = floats("x.npy", "(1,)", {1});
  expect_failure(read_source({.format = "idx", .inputs = {x}, .targets = {x}}), Code::kCorrupt, x.string());
  expect_failure(read_source({.format = "cifar10", .inputs = {x}, .targets = {}}), Code::kCorrupt, x.string());
  expect_failure(read_source({.format = "safetensors", .inputs = {x}, .targets = {x}}), Code::kCorrupt, x.string());
  expect_failure(read_source({.format = "digits", .inputs = {x}, .targets = {}}), Code::kCorrupt, x.string());
  expect_failure(read_source({.format = "digits", .inputs = {folder_ / "no"}, .targets = {}}), Code::kNotFound, "no");
}

}  // namespace
}  // namespace ravnest::data
