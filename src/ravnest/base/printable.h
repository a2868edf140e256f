// Text from outside, made fit for a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ravnest {

// Valid UTF-8 stays; each byte that is not, or is of a control character, becomes a question mark: those that steer
// terminals, and those that turn the direction of writing. Whoever prints a message or hands it to Python relies on it
// being text.
std::string printable(std::string_view bytes);

// Of a reason or a line of the log: a stack of calls fits, a flood does not.
inline constexpr std::size_t kMostReasonBytes = 16 << 10;

// The lines one after the other, each as what follows the one before: "a" and "b" are "a; b", "A." and "B." are "A.
// B.". A sentence that has none but its last stays as it is.
std::string in_one_sentence(std::string_view lines);

// A sentence from outside, or one that goes there: printable, but for its tabs, on one line, and of kMostReasonBytes at
// most. Of a longer one the beginning and the end stay. Done twice it is the same as once.
std::string printable_reason(std::string_view bytes);

}  // namespace ravnest
