// Names for what there is one of, such as a plan or a run. Not secret: tokens and keys come from elsewhere.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace ravnest {

// So many random digits of the sixteen.
inline std::string random_id(std::size_t digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device random;
  std::string id(digits, '0');
  for (char& digit : id) digit = kDigits[random() % kDigits.size()];
  return id;
}

}  // namespace ravnest
