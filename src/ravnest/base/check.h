// What must hold in our own logic, checked in the product too.
//
// A state machine that has left its own rules can only do harm by going on: send what it does not have, wait for what
// never comes, apply half a round. So the process ends, at once and with a line that says what no longer held, and the
// others see a node that died, which they know how to deal with.
// Only for what this program alone decides. What comes from outside (a peer's message, a file, a user's number) is
// answered by a Status, however wrong it is.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "ravnest/base/text.h"

namespace ravnest {

// Ends the process, with one line on standard error. Kept out of line: where it is called costs a comparison only.
template <class... Ts>
[[noreturn, gnu::noinline, gnu::cold]] void end_with_defect(const char* file, int line, const char* condition,
                                                            const Ts&... parts) {
  std::fprintf(stderr, "%s\n",
               text(file, ":", line, ": this is a defect of ravnest: ", parts..., sizeof...(parts) > 0 ? " " : "", "(",
                    condition, " does not hold)")
                   .c_str());
  std::abort();
}

}  // namespace ravnest

// RAVNEST_CHECK(acknowledged <= sent, "lane ", lane, ": ", acknowledged, " of ", sent, " messages are acknowledged");
// The parts are what the error says, put together as by `text`; they are looked at on failure only. A macro, so that
// the line has the place and the words of the condition.
#define RAVNEST_CHECK(condition, ...)                                                        \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::ravnest::end_with_defect(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
