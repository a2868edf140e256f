// What someone meant who wrote a name that does not exist.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ravnest {

// The name that needs the fewest changes (a letter more, less, another, or two next to each other exchanged; upper and
// lower case are the same) to become `written`; the first of several. Nothing where that is more than one change in
// three letters: then nobody would recognise it.
std::optional<std::string_view> nearest(std::string_view written, std::span<const std::string_view> names);

// "; did you mean NAME?" to end a message with, or nothing.
std::string did_you_mean(std::string_view written, std::span<const std::string_view> names);

}  // namespace ravnest
