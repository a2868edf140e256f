#include "ravnest/base/printable.h"

#include <gtest/gtest.h>

namespace ravnest {
namespace {

TEST(Printable, KeepsTextInAnyAlphabet) {
  EXPECT_EQ(printable("plain, \xc3\xa9, \xe4\xb8\xad, \xf0\x9f\x90\xa6"),
            "plain, \xc3\xa9, \xe4\xb8\xad, \xf0\x9f\x90\xa6");
}

TEST(Printable, ReplacesControlCharactersAndWhatIsNotText) {
  EXPECT_EQ(printable("a\x1b[31m\n\x7f"), "a?[31m??");
  EXPECT_EQ(printable("\xff\xc3"), "??");
  EXPECT_EQ(printable("\xc0\xaf"), "??") << "an overlong slash";
  EXPECT_EQ(printable("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????") << "beyond the last code point";
  EXPECT_EQ(printable("\xe4\xb8x"), "??x") << "cut short";
}

TEST(Printable, ReplacesWhatSteersTerminalsInTwoOrThreeBytes) {
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "??2J")
      << "U+009B begins a command";
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0");
  EXPECT_EQ(printable("\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8"), "?????????") << "directions, and a line's end";
  EXPECT_EQ(printable("\xe2\x80\x93\xe2\x80\xa6"), "\xe2\x80\x93\xe2\x80\xa6") << "a dash and dots";
}

TEST(InOneSentence, LinesFollowEachOtherAsSentencesDo) {
  EXPECT_EQ(in_one_sentence("line 1: epochs\nline 7: lr"), "line 1: epochs; line 7: lr");
  EXPECT_EQ(in_one_sentence("CUDA error: assert triggered\nCompile with DSA.\r\n\n  It helps.\n"),
            "CUDA error: assert triggered; Compile with DSA. It helps.");
  EXPECT_EQ(in_one_sentence("one, \n"), "one,");
  EXPECT_EQ(in_one_sentence(" as it is "), " as it is ");
  EXPECT_EQ(in_one_sentence("\n \n"), "");
}

TEST(PrintableReason, IsOneLine) {
  EXPECT_EQ(printable_reason("raised\nTraceback:\n\tin\tf\r\x1b[2J"), "raised; Traceback: in\tf??[2J");
}

TEST(PrintableReason, OfALongOneTheBeginningAndTheEndStay) {
  const std::string longest = "its script raised" + std::string(7 << 20, 'x') + "ValueError: no such class";
  const std::string cut = printable_reason(longest);
  EXPECT_LE(cut.size(), kMostReasonBytes);
  EXPECT_TRUE(cut.starts_with("its script raised"));
  EXPECT_TRUE(cut.ends_with("ValueError: no such class"));
  EXPECT_NE(cut.find("bytes are left out here"), std::string::npos);
}

TEST(PrintableReason, DoneTwiceIsTheSameAsOnceWhateverItIs) {
  for (const std::string piece : {"x", "\x80", "\xc3\xa9", "\xf0\x9f\x90\xa6", "\x1b[31m", "\xe4\xb8"}) {
    for (const std::size_t size :
         {std::size_t{10}, kMostReasonBytes - 1, kMostReasonBytes, kMostReasonBytes + 1, 3 * kMostReasonBytes}) {
      std::string bytes;
      while (bytes.size() < size) bytes += piece;
      const std::string once = printable_reason(bytes);
      EXPECT_LE(once.size(), kMostReasonBytes);
      EXPECT_EQ(printable_reason(once), once);
      EXPECT_EQ(once.find('\x1b'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ravnest
