#include "ravnest/object_store/download_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/object_store/download.h"
#include "ravnest/object_store/upload.h"

namespace ravnest::object_store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const NoteHead kHead{"s3://lab/k", "https://h", "e\"\xff", 25, 10};

TEST(DownloadNote, HasThePiecesThatAreWhole) {
  EXPECT_THAT(decode_note(encode_note_head(kHead) + "2\n0\n", kHead), ElementsAre(true, false, true));
  EXPECT_THAT(decode_note(encode_note_head(kHead), kHead), ElementsAre(false, false, false));
}

TEST(DownloadNote, LineWithoutItsEndOrOutOfRangeDoesNotCount) {
  EXPECT_THAT(decode_note(encode_note_head(kHead) + "3\n-1\n\n1", kHead), ElementsAre(false, false, false));
}

TEST(DownloadNote, OfAnotherVersionOrNoneIsNone) {
  NoteHead other = kHead;
  other.etag = "f";
  EXPECT_THAT(decode_note(encode_note_head(other) + "0\n", kHead), IsEmpty());
  EXPECT_THAT(decode_note("", kHead), IsEmpty());
  EXPECT_THAT(decode_note("0\n", kHead), IsEmpty());
}

TEST(DownloadedRange, HasToBeTheOneAskedFor) {
  const auto answer = [](int status, std::string range) {
    return HttpAnswer{status, {{"content-range", std::move(range)}}, ""};
  };
  EXPECT_TRUE(check_range(answer(206, "bytes 0-9/25"), 0, 10, 25).ok());
  EXPECT_TRUE(check_range(answer(206, "bytes 4-9/25"), 0, 10, 25).ok()) << "of an attempt that went on";
  EXPECT_FALSE(check_range(answer(206, "bytes 0-9/26"), 0, 10, 25).ok());
  EXPECT_FALSE(check_range(answer(206, ""), 0, 10, 25).ok());
  EXPECT_TRUE(check_range(answer(200, "bytes 0-9/25"), 0, 10, 25).ok()) << "as rclone's server has it";
  EXPECT_EQ(check_range(answer(200, ""), 0, 10, 25).code(), Code::kUnsupported);
  EXPECT_TRUE(check_range(answer(200, ""), 0, 25, 25).ok());
}

TEST(Parts, AreAsManyAsS3TakesAtMost) {
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_EQ(part_bytes_for(100 * kMiB, 8 * kMiB), 8 * kMiB);
  const std::uint64_t large = 200'000 * kMiB;
  EXPECT_EQ(part_bytes_for(large, 8 * kMiB), 20 * kMiB);
  EXPECT_EQ(part_bytes_for(large + 1, 8 * kMiB), 21 * kMiB);
}

}  // namespace
}  // namespace ravnest::object_store
