#include "ravnest/base/printable.h"

namespace ravnest {
namespace {

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
  return size;
}

}  // namespace

std::string printable(std::string_view bytes) {
  std::string result;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t size = character_at(bytes, i);
    result += size == 0 ? std::string_view("?") : bytes.substr(i, size);
    i += size == 0 ? 1 : size;
  }
  return result;
}

}  // namespace ravnest
