#include "ravnest/report/record_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <string>

#include "ravnest/base/file.h"
#include "ravnest/base/testing/folders.h"

namespace ravnest::report {
namespace {

namespace fs = std::filesystem;

class RecordFileTest : public test::FolderTest {
 protected:
  void put(const std::string& name, const std::string& content) {
    ASSERT_EQ(write_file_atomically(folder_ / name, content), Status());
  }
  std::string content(const std::string& name) const {
    const auto read = read_file(folder_ / name);
    return read.ok() ? *read : "(" + std::string(ravnest::name(read.status().code())) + ")";
  }
  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  const fs::path path_ = folder_ / "losses.txt";
};

TEST_F(RecordFileTest, EachLineIsInTheFileWhenAppendReturns) {
  auto file = RecordFile::begin(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(content("losses.txt"), "");
  ASSERT_EQ(file->append(0.03125, 4), Status());
  EXPECT_EQ(content("losses.txt"), "0.0312\n");
  ASSERT_EQ(file->append(94.575, 2), Status());
  ASSERT_EQ(file->append(-2, 0), Status());
  EXPECT_EQ(content("losses.txt"), "0.0312\n94.58\n-2\n");
}

TEST_F(RecordFileTest, ARunThatGoesOnCutsWhatItWillWriteAgain) {
  {
    auto file = RecordFile::begin(path_);
    for (const double value : {1.0, 2.0, 3.0}) ASSERT_TRUE(file->append(value, 1).ok());
  }
  auto file = RecordFile::go_on(path_, 2);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->append(4, 1).ok());
  EXPECT_EQ(content("losses.txt"), "1.0\n2.0\n4.0\n");
  const auto longer = RecordFile::go_on(path_, 5);
  EXPECT_EQ(longer.status().code(), Code::kInvalid);
  EXPECT_THAT(longer.status().message(), testing::HasSubstr("has 3 lines, and the run goes on after 5"));
  EXPECT_EQ(content("losses.txt"), "1.0\n2.0\n4.0\n");
}

TEST_F(RecordFileTest, AFileThatIsNotThereIsBegunByARunThatGoesOn) {
  auto file = RecordFile::go_on(path_, 2);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->append(4, 1).ok());
  EXPECT_EQ(content("losses.txt"), "4.0\n");
}

TEST_F(RecordFileTest, WhatIsNoNumberIsWrittenAsSuch) {
  auto file = RecordFile::begin(path_);
  ASSERT_TRUE(file.ok());
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()})
    ASSERT_EQ(file->append(value, 4), Status());
  EXPECT_EQ(content("losses.txt"), "nan\nnan\ninf\n-inf\n");
}

TEST_F(RecordFileTest, LargestNumberHasRoom) {
  auto file = RecordFile::begin(path_);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->append(-std::numeric_limits<double>::max(), 1000), Status());
  EXPECT_EQ(content("losses.txt").size(), 1U + 309 + 1 + 17 + 1);
}

TEST_F(RecordFileTest, EarlierRunsMoveUpByOne) {
  put("losses.txt", "newest\n");
  put("losses.txt.1", "older\n");
  put("losses.txt.2", "oldest\n");
  ASSERT_TRUE(RecordFile::begin(path_).ok());
  EXPECT_EQ(content("losses.txt"), "");
  EXPECT_EQ(content("losses.txt.1"), "newest\n");
  EXPECT_EQ(content("losses.txt.2"), "older\n");
  EXPECT_EQ(content("losses.txt.3"), "oldest\n");
  EXPECT_EQ(entries(), 4);
}

TEST_F(RecordFileTest, FirstFreeNumberEndsTheMoving) {
  put("losses.txt", "newest\n");
  put("losses.txt.1", "older\n");
  put("losses.txt.3", "kept by hand\n");
  ASSERT_TRUE(RecordFile::begin(path_).ok());
  EXPECT_EQ(content("losses.txt.1"), "newest\n");
  EXPECT_EQ(content("losses.txt.2"), "older\n");
  EXPECT_EQ(content("losses.txt.3"), "kept by hand\n");
  EXPECT_EQ(entries(), 4);
}

TEST_F(RecordFileTest, WithoutAnEarlierFileTheNumberedOnesStay) {
  put("losses.txt.1", "older\n");
  ASSERT_TRUE(RecordFile::begin(path_).ok());
  EXPECT_EQ(content("losses.txt.1"), "older\n");
  EXPECT_EQ(entries(), 2);
}

TEST_F(RecordFileTest, LinkIsKeptAsItIsAndWhatItLeadsToStays) {
  put("elsewhere", "earlier\n");
  fs::create_symlink(folder_ / "elsewhere", path_);
  auto file = RecordFile::begin(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->append(1, 0), Status());
  EXPECT_EQ(content("elsewhere"), "earlier\n");
  EXPECT_EQ(content("losses.txt.1"), "earlier\n");
  EXPECT_EQ(content("losses.txt"), "1\n");
}

TEST_F(RecordFileTest, LinkThatLeadsNowhereDoesNotKeepARunFromBeginning) {
  fs::create_symlink(folder_ / "nowhere", path_);
  EXPECT_TRUE(RecordFile::begin(path_).ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "losses.txt.1"));
}

TEST_F(RecordFileTest, FullDiskIsAFailureThatNamesTheFile) {
  auto file = RecordFile::begin("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->append(0.5, 4), unavailable("cannot write /dev/full: No space left on device"));
  EXPECT_FALSE(fs::exists("/dev/full.1"));
}

TEST_F(RecordFileTest, PipeThatNobodyReadsIsRefusedInsteadOfWaitedFor) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(RecordFile::begin(path_).status().code(), Code::kUnavailable);
  EXPECT_EQ(entries(), 1);
}

TEST_F(RecordFileTest, LineThatFoundNoRoomLeavesNothingOfItselfAndTheNextMayFindSome) {
  auto file = RecordFile::begin(path_);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->append(1.5, 4), Status());
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 10, .rlim_max = old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status failure = file->append(2.5, 4);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  static_cast<void>(std::signal(SIGXFSZ, handler));
  EXPECT_EQ(failure, unavailable("cannot write ", path_.string(), ": File too large"));
  EXPECT_EQ(content("losses.txt"), "1.5000\n");
  ASSERT_EQ(file->append(3.5, 4), Status());
  EXPECT_EQ(content("losses.txt"), "1.5000\n3.5000\n");
}

TEST_F(RecordFileTest, FolderIsRefusedAndStays) {
  fs::create_directory(path_);
  EXPECT_EQ(RecordFile::begin(path_).status(), invalid("cannot write ", path_.string(), ": Is a directory"));
  EXPECT_TRUE(fs::is_directory(path_));
}

TEST_F(RecordFileTest, MissingFolderIsNotFound) {
  const fs::path path = folder_ / "no" / "losses.txt";
  EXPECT_EQ(RecordFile::begin(path).status(),
            not_found("cannot create ", path.string(), ": No such file or directory"));
  EXPECT_EQ(RecordFile::begin(folder_ / "").status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace ravnest::report
