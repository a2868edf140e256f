// Text from outside, made fit for a message.
#pragma once

#include <string>
#include <string_view>

namespace ravnest {

// Valid UTF-8 stays; each byte that is not, or is a control character, becomes a question mark. Whoever prints a
// message or hands it to Python relies on it being text.
std::string printable(std::string_view bytes);

}  // namespace ravnest
