#include "ravnest/archive/pickle/pickle.h"

#include <gtest/gtest.h>

#include "ravnest/archive/zip.h"
#include "ravnest/graph/ir/archive/sample_inputs.h"
#include "ravnest/graph/ir/testing/models.h"

namespace ravnest::ir {
namespace {

using namespace std::string_literals;

std::string finished(archive::PickleWriter& pickle) {
  const std::vector<std::byte> bytes = pickle.finish();
  return std::string(as_string_view(bytes));
}

// What `torch.load` is known to read; pickletools.dis explains it byte by byte.
TEST(Pickle, ATensorIsWrittenAsTorchRebuildsIt) {
  archive::PickleWriter pickle;
  pickle.tensor(DType::kInt64, "0", 6, 1, {2, 3}, {3, 1}, false);
  EXPECT_EQ(finished(pickle),
            "\x80\x02"
            "ctorch._utils\n_rebuild_tensor_v2\n(("
            "X\x07\x00\x00\x00storagectorch\nLongStorage\nX\x01\x00\x00\x00\x30X\x03\x00\x00\x00"
            "cpuJ\x06\x00\x00\x00tQ"
            "J\x01\x00\x00\x00(J\x02\x00\x00\x00J\x03\x00\x00\x00t(J\x03\x00\x00\x00J\x01\x00\x00\x00t\x89"
            "ccollections\nOrderedDict\n)RtR."s);
}

TEST(Pickle, NumbersAreWrittenInTheirShortestSafeForm) {
  archive::PickleWriter pickle;
  pickle.begin_list();
  pickle.integer(-1);
  pickle.integer(std::int64_t{1} << 40);
  pickle.number(1.5);
  pickle.boolean(true);
  pickle.none();
  pickle.end_list();
  EXPECT_EQ(
      finished(pickle),
      "\x80\x02](J\xff\xff\xff\xff\x8a\x08\x00\x00\x00\x00\x00\x01\x00\x00G\x3f\xf8\x00\x00\x00\x00\x00\x00\x88Ne."s);
}

TEST(Pickle, ADictIsWrittenAsItsKeysAndValues) {
  archive::PickleWriter pickle;
  pickle.begin_dict();
  pickle.string("a");
  pickle.begin_tuple();
  pickle.end_tuple();
  pickle.end_dict();
  EXPECT_EQ(finished(pickle), "\x80\x02}(X\x01\x00\x00\x00\x61(tu."s);
}

TEST(Pickle, AnOrderedDictIsMadeEmptyAndThenFilled) {
  archive::PickleWriter pickle;
  pickle.begin_ordered_dict();
  pickle.string("a");
  pickle.none();
  pickle.end_dict();
  EXPECT_EQ(finished(pickle),
            "\x80\x02"
            "ccollections\nOrderedDict\n)R(X\x01\x00\x00\x00\x61Nu."s);
}

TEST(SampleInputs, HaveTheShapeOfTheCallAndNoneOfItsData) {
  testing::ModelBuilder builder;
  const Ref x = builder.input("x", {testing::dynamic("s0"), testing::fixed(3)});
  builder.fixed_input("flag", Argument(true));
  const Model model = builder.returns({x});
  const Result<std::vector<std::byte>> file = sample_inputs(model.train);
  ASSERT_TRUE(file.ok()) << file.status();
  const Result<archive::ZipReader> zip = archive::ZipReader::open(*file);
  ASSERT_TRUE(zip.ok()) << zip.status();
  EXPECT_EQ(as_string_view(zip->record("model/data/0").value()), std::string(4, '\0')) << "one zero, expanded";
  const std::string pickle(as_string_view(zip->record("model/data.pkl").value()));
  EXPECT_NE(pickle.find("FloatStorage"), std::string::npos);
  EXPECT_NE(pickle.find("(J\x04\x00\x00\x00J\x03\x00\x00\x00t(J\x00\x00\x00\x00J\x00\x00\x00\x00t"s),
            std::string::npos);
  EXPECT_NE(pickle.find("\x88t}(u"s), std::string::npos) << "the flag ends the arguments; no keywords follow";
}

}  // namespace
}  // namespace ravnest::ir
