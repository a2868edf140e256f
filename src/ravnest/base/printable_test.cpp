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

}  // namespace
}  // namespace ravnest
