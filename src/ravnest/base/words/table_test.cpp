#include "ravnest/base/words/table.h"

#include <gtest/gtest.h>

namespace ravnest {
namespace {

TEST(Table, NumbersStandRightAndWordsLeft) {
  Table table({"node", "sent"});
  table.add({"node_0", "8 MB"});
  table.add({"x", "120 MB"});
  EXPECT_EQ(table.text(),
            "node      sent\n"
            "node_0    8 MB\n"
            "x       120 MB\n");
}

TEST(Table, ColumnsAreAsWideAsWhatPeopleSee) {
  EXPECT_EQ(shown_width("größer"), 6U);
  Table table({"a", "b"});
  table.add({"größer", "x"});
  EXPECT_EQ(table.text(), "a       b\ngrößer  x\n");
}

}  // namespace
}  // namespace ravnest
