#include "ravnest/base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "ravnest/base/testing/folders.h"

namespace ravnest {
namespace {

namespace fs = std::filesystem;

class FileTest : public test::FolderTest {
 protected:
  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }
};

TEST_F(FileTest, WhatIsWrittenReadsBackTheSame) {
  const std::string content("a\0b\n", 4);
  ASSERT_EQ(write_file_atomically(folder_ / "x", content), Status());
  EXPECT_EQ(read_file(folder_ / "x").value(), content);
  const auto mapped = MappedFile::open(folder_ / "x");
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(as_string_view(mapped->bytes()), content);
}

TEST_F(FileTest, FileLargerThanOneBlockReadsWhole) {
  std::string content(300'000, '\0');
  std::generate(content.begin(), content.end(), [i = 0]() mutable { return static_cast<char>(i++ % 251); });
  ASSERT_EQ(write_file_atomically(folder_ / "big", content), Status());
  EXPECT_TRUE(read_file(folder_ / "big").value() == content);
}

TEST_F(FileTest, MissingFileIsNotFoundAndTheMessageNamesPathAndReason) {
  const fs::path path = folder_ / "nothing";
  const std::string expected = "cannot open " + path.string() + ": No such file or directory";
  EXPECT_EQ(MappedFile::open(path).status(), not_found(expected));
  EXPECT_EQ(read_file(path).status(), not_found(expected));
}

TEST_F(FileTest, DirectoryIsInvalid) {
  EXPECT_EQ(MappedFile::open(folder_).status().code(), Code::kInvalid);
  EXPECT_EQ(read_file(folder_).status().code(), Code::kInvalid);
}

TEST_F(FileTest, NamedPipeIsRefusedInsteadOfWaitedFor) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(folder_ / "pipe").status().code(), Code::kInvalid);
}

TEST_F(FileTest, EmptyFileMapsToNoBytes) {
  ASSERT_EQ(write_file_atomically(folder_ / "empty", ""), Status());
  const auto mapped = MappedFile::open(folder_ / "empty");
  ASSERT_TRUE(mapped.ok());
  EXPECT_TRUE(mapped->bytes().empty());
}

TEST_F(FileTest, MappingSurvivesMovesAndTheReplacementOfTheFile) {
  ASSERT_EQ(write_file_atomically(folder_ / "x", "first"), Status());
  auto opened = MappedFile::open(folder_ / "x");
  ASSERT_TRUE(opened.ok());
  const std::byte* data = opened->bytes().data();
  const auto shared = std::make_shared<const MappedFile>(std::move(opened).value());
  ASSERT_EQ(write_file_atomically(folder_ / "x", "other"), Status());
  EXPECT_EQ(shared->bytes().data(), data);
  EXPECT_EQ(as_string_view(shared->bytes()), "first");
}

TEST_F(FileTest, NothingIsVisibleBeforeTheCommit) {
  ASSERT_EQ(write_file_atomically(folder_ / "x", "old"), Status());
  auto file = AtomicFile::create(folder_ / "x");
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->append("new "), Status());
  ASSERT_EQ(file->append("content"), Status());
  EXPECT_EQ(file->position(), 11U);
  EXPECT_EQ(read_file(folder_ / "x").value(), "old");
  ASSERT_EQ(file->commit(), Status());
  EXPECT_EQ(read_file(folder_ / "x").value(), "new content");
  EXPECT_EQ(entries(), 1);
}

TEST_F(FileTest, WithoutACommitNothingIsLeftBehind) {
  {
    auto file = AtomicFile::create(folder_ / "x");
    ASSERT_TRUE(file.ok());
    ASSERT_EQ(file->append("half"), Status());
    EXPECT_EQ(entries(), 1);
  }
  EXPECT_EQ(entries(), 0);
}

TEST_F(FileTest, ANamedPipeIsRefusedAndNotWaitedFor) {
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(read_file(path).status(), invalid("cannot read ", path.string(), ": not a regular file"));
  EXPECT_EQ(MappedFile::open(path).status(), invalid("cannot map ", path.string(), ": not a regular file"));
}

TEST_F(FileTest, WhatAKilledWriterLeftIsRemovedByTheNextAndALivingOnesIsNot) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    auto file = AtomicFile::create(folder_ / "x");
    if (file.ok()) static_cast<void>(file->append("half"));
    ::raise(SIGKILL);
  }
  ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
  ASSERT_EQ(entries(), 1);
  // Others' names are not ours, however alike.
  for (const char* name : {".x.short.tmp", ".y.abcdefgh.tmp", ".x.ABCDEFGH.tmp", "x.abcdefgh.tmp", ".x.y.abcdefgh.tmp"})
    ASSERT_EQ(write_file_atomically(folder_ / name, "theirs"), Status());
  auto living = AtomicFile::create(folder_ / "x");
  ASSERT_TRUE(living.ok()) << living.status();
  EXPECT_EQ(entries(), 6);
  ASSERT_EQ(living->append("whole"), Status());
  ASSERT_EQ(write_file_atomically(folder_ / "x", "another's"), Status());
  remove_unfinished(folder_ / "x");
  EXPECT_EQ(entries(), 7);
  ASSERT_EQ(living->commit(), Status());
  EXPECT_EQ(read_file(folder_ / "x").value(), "whole");
  EXPECT_EQ(entries(), 6);
}

TEST_F(FileTest, SecondCommitAndAppendAfterItAreInvalid) {
  auto file = AtomicFile::create(folder_ / "x");
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->commit(), Status());
  EXPECT_EQ(file->commit().code(), Code::kInvalid);
  EXPECT_EQ(file->append("more").code(), Code::kInvalid);
  EXPECT_TRUE(fs::exists(folder_ / "x"));
}

TEST_F(FileTest, FailedCommitKeepsTheOldContentAndLeavesNoTemporaryFile) {
  fs::create_directory(folder_ / "taken");
  ASSERT_EQ(write_file_atomically(folder_ / "taken" / "inner", "1"), Status());
  auto file = AtomicFile::create(folder_ / "taken");
  ASSERT_TRUE(file.ok());
  const Status first = file->commit();
  EXPECT_FALSE(first.ok());
  EXPECT_EQ(first.message(), "cannot replace " + (folder_ / "taken").string() + ": Is a directory");
  EXPECT_EQ(file->append("more"), first);
  EXPECT_EQ(file->commit(), first);
  EXPECT_EQ(entries(), 1);
}

TEST_F(FileTest, WriteErrorIsReportedOnceAndStays) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4, .rlim_max = old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  auto file = AtomicFile::create(folder_ / "x");
  const Status first = file.ok() ? file->append("more than four bytes") : file.status();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  static_cast<void>(std::signal(SIGXFSZ, handler));
  EXPECT_EQ(first, unavailable("cannot write ", (folder_ / "x").string(), ": File too large"));
  EXPECT_EQ(file->commit(), first);
  EXPECT_EQ(entries(), 0);
}

TEST_F(FileTest, PrivateFileIsItsOwnersOnlyFromTheFirstMomentWhateverTheUmask) {
  const mode_t old = ::umask(0);
  auto file = AtomicFile::create(folder_ / "key", kPrivateMode);
  auto plain = AtomicFile::create(folder_ / "plain");
  ::umask(old);
  ASSERT_TRUE(file.ok() && plain.ok());
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const bool is_key = entry.path().filename().string().starts_with(".key.");
    EXPECT_EQ(static_cast<unsigned>(entry.status().permissions()), is_key ? 0600U : 0666U) << entry;
  }
  ASSERT_EQ(file->commit(), Status());
  EXPECT_EQ(static_cast<unsigned>(fs::status(folder_ / "key").permissions()), 0600U);
}

TEST_F(FileTest, PrivateFileTakesThePlaceOfAReadableOneWithItsOwnMode) {
  ASSERT_EQ(write_file_atomically(folder_ / "key", "old"), Status());
  ASSERT_EQ(write_file_atomically(folder_ / "key", "new", kPrivateMode), Status());
  EXPECT_EQ(static_cast<unsigned>(fs::status(folder_ / "key").permissions()), 0600U);
}

TEST_F(FileTest, FolderThatDoesNotExistIsNotFound) {
  EXPECT_EQ(write_file_atomically(folder_ / "no" / "x", "1").code(), Code::kNotFound);
}

TEST_F(FileTest, PathWithoutAFileNameIsInvalid) {
  EXPECT_EQ(write_file_atomically(folder_ / "", "1").code(), Code::kInvalid);
}

TEST_F(FileTest, MovingAFileOverAnotherDiscardsTheOther) {
  auto first = AtomicFile::create(folder_ / "first");
  auto second = AtomicFile::create(folder_ / "second");
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_EQ(second->append("2"), Status());
  *first = std::move(*second);
  EXPECT_EQ(entries(), 1);
  ASSERT_EQ(first->commit(), Status());
  EXPECT_EQ(read_file(folder_ / "second").value(), "2");
  EXPECT_FALSE(fs::exists(folder_ / "first"));
}

}  // namespace
}  // namespace ravnest
