#include "ravnest/base/printable.h"

#include <algorithm>

namespace ravnest {
namespace {

// Of two bytes: U+0080 to U+009F, which terminals take for commands as well. Of three: line and paragraph separators,
// and all that turns or isolates the direction of writing.
bool is_control(std::string_view character) {
  if (character.size() == 2) return character[0] == '\xc2' && static_cast<unsigned char>(character[1]) < 0xa0;
  if (character.size() != 3 || character[0] != '\xe2') return false;
  const auto last = static_cast<unsigned char>(character[2]);
  return (character[1] == '\x80' && ((last >= 0xa8 && last <= 0xae) || last == 0x8e || last == 0x8f)) ||
         (character[1] == '\x81' && last >= 0xa6 && last <= 0xa9);
}

// The length of the character that starts at `i`; 0 where none does, or one that must not be printed.
std::size_t character_at(std::string_view bytes, std::size_t i) {
  const auto byte = [&](std::size_t k) { return k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0U; };
  const unsigned first = byte(i);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const unsigned lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;   // no overlong forms,
  const unsigned highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;  // surrogates or beyond U+10FFFF
  if (byte(i + 1) < lowest || byte(i + 1) > highest) return 0;
  for (std::size_t k = 2; k < size; ++k) {
    if (byte(i + k) < 0x80 || byte(i + k) > 0xbf) return 0;
  }
  return is_control(bytes.substr(i, size)) ? 0 : size;
}

std::string made_printable(std::string_view bytes, std::string_view allowed) {
  std::string result;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t size = allowed.find(bytes[i]) != std::string_view::npos ? 1 : character_at(bytes, i);
    result += size == 0 ? std::string_view("?") : bytes.substr(i, size);
    i += size == 0 ? 1 : size;
  }
  return result;
}

// Where a character begins, at `i` or up to three bytes before.
std::size_t beginning(std::string_view text, std::size_t i) {
  for (std::size_t back = 0; back < 4 && back <= i; ++back) {
    if ((static_cast<unsigned char>(text[i - back]) & 0xc0) != 0x80) return i - back;
  }
  return i;
}

}  // namespace

std::string printable(std::string_view bytes) { return made_printable(bytes, ""); }

std::string in_one_sentence(std::string_view lines) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string sentence;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    if (end == std::string_view::npos && sentence.empty()) return std::string(lines);
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    line = line.substr(0, line.find_last_not_of(kSpace) + 1);
    if (!sentence.empty()) line.remove_prefix(std::min(line.size(), line.find_first_not_of(kSpace)));
    if (line.empty()) continue;
    if (!sentence.empty())
      sentence += std::string_view(".,:;!?").find(sentence.back()) == std::string_view::npos ? "; " : " ";
    sentence += line;
  }
  return sentence;
}

std::string printable_reason(std::string_view bytes) {
  constexpr std::string_view kAllowed = "\t";
  const std::string sentence = in_one_sentence(bytes);
  if (sentence.size() <= kMostReasonBytes) return made_printable(sentence, kAllowed);
  // What a stack of calls ends with says the most.
  constexpr std::size_t kSide = kMostReasonBytes / 2 - 64;
  const std::string_view all = sentence;
  const std::string head = made_printable(all.substr(0, beginning(all, kSide)), kAllowed);
  const std::string tail = made_printable(all.substr(beginning(all, all.size() - kSide)), kAllowed);
  return head + " ... (" + std::to_string(all.size() - 2 * kSide) + " bytes are left out here) ... " + tail;
}

}  // namespace ravnest
