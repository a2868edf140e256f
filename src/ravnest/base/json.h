// JSON from outside, parsed without exceptions and with a bounded depth.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest {

// Deeper nesting is refused: what walks a parsed value recursively must not run out of stack.
inline constexpr int kMaxJsonDepth = 200;

// Parses one JSON value that takes up the whole text. `what` names the text in errors: a file, or a field of one.
// kCorrupt, with the position in bytes from the start, where it is not JSON or is nested too deep. Memory is
// proportional to the text. Safe from any thread.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view what);

// The same, for formats that forbid a key to stand twice in one object: kCorrupt too, with the key. JSON itself lets
// the last one win, so that two readers may see two things.
Result<nlohmann::json> parse_json_without_repeats(std::string_view text, std::string_view what);

// For what people write by hand: a key that stands twice in one object is kCorrupt too. JSON itself lets the last one
// win, and the other would be lost without a word. Keys keep their order.
Result<nlohmann::ordered_json> parse_json_by_hand(std::string_view text, std::string_view what);

}  // namespace ravnest
