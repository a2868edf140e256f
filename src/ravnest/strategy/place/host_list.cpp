#include "ravnest/strategy/place/host_list.h"

#include <algorithm>

namespace ravnest::strategy {
namespace {

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

bool may_be_in_a_name(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '-' ||
         letter == '.' || letter == '_' || letter == ':';
}

}  // namespace

Result<std::string> first_host(std::string_view list) {
  const auto refused = [&] { return invalid("\"", list, "\" is no list of hosts, such as n[1-3],n7"); };
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      if (!may_be_in_a_name(list[at])) return refused();
      host += list[at++];
      continue;
    }
    // "[01-03,7]" begins with 01: the digits up to the first that ends a number.
    const std::size_t close = list.find(']', at);
    if (close == std::string_view::npos) return refused();
    const std::string_view ranges = list.substr(at + 1, close - at - 1);
    const std::string_view first = ranges.substr(0, ranges.find_first_of("-,"));
    if (first.empty() || !std::ranges::all_of(first, is_digit)) return refused();
    host += first;
    at = close + 1;
  }
  if (host.empty()) return refused();
  return host;
}

}  // namespace ravnest::strategy
