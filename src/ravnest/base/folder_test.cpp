#include "ravnest/base/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/base/testing/folders.h"

namespace ravnest {
namespace {

namespace fs = std::filesystem;

class Folders : public test::FolderTest {};

TEST_F(Folders, AreMadeWithThoseAboveThem) {
  EXPECT_EQ(make_folders(folder_ / "a" / "b" / "c"), Status());
  EXPECT_TRUE(fs::is_directory(folder_ / "a" / "b" / "c"));
  EXPECT_EQ(make_folders(folder_ / "a" / "b" / "c"), Status());
  EXPECT_EQ(make_folders(""), Status());
}

TEST_F(Folders, FileInTheWayIsNamed) {
  test::write(folder_ / "file", "");
  const Status status = make_folders(folder_ / "file" / "below");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), ::testing::HasSubstr("cannot create " + (folder_ / "file").string()));
}

TEST_F(Folders, OneThatIsNotThereNeedsNoSync) { EXPECT_EQ(sync_folder(folder_ / "nothing"), Status()); }

}  // namespace
}  // namespace ravnest
