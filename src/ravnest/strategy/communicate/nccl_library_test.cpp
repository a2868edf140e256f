#include "ravnest/strategy/communicate/nccl_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/strategy/communicate/testing/nccl_stand_in.h"

namespace ravnest::strategy {
namespace {

using ::testing::HasSubstr;

TEST(NcclLibrary, IsLoadedWithAllItsFunctions) {
  stand_in::reset();
  const Result<NcclLibrary> library = load_nccl(stand_in::path());
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_NE(library->broadcast, nullptr);
}

TEST(NcclLibrary, FileThatIsNotThereIsNamed) {
  const Status status = load_nccl("/nowhere/libnccl.so.2").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/libnccl.so.2"));
}

TEST(NcclLibrary, OtherLibraryIsRefusedWithTheFirstFunctionThatItLacks) {
  const Status status = load_nccl("libm.so.6").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("libm.so.6 has no ncclGetVersion"));
}

TEST(NcclLibrary, VersionsThatItDoesNotKnowAreRefused) {
  for (const auto& [version, words] :
       {std::pair(2804, "older than 2.9"), std::pair(21713, "NCCL 2.17.13"), std::pair(30001, "NCCL 3.0.1")}) {
    stand_in::set_version(version);
    const Status status = load_nccl(stand_in::path()).status();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr(words));
  }
  for (const int version : {21800, 22809, 22999}) {
    stand_in::set_version(version);
    EXPECT_TRUE(load_nccl(stand_in::path()).ok()) << version;
  }
  stand_in::reset();
}

TEST(NcclLibrary, ReasonIsOneLineOfBothThatNcclSays) {
  const NcclLibrary library = load_nccl(stand_in::path()).value();
  EXPECT_EQ(nccl_reason(library, nccl::kSystemError, nullptr), "unhandled system error (the stand-in; says so)");
}

}  // namespace
}  // namespace ravnest::strategy
