#include "ravnest/base/words/nearest.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "ravnest/base/text.h"

namespace ravnest {
namespace {

constexpr std::size_t kLongest = 64;  // of names worth comparing; the work grows with the square

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// The changes that make `a` of `b`, row by row of the usual table; an exchange looks two rows back.
std::size_t changes(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before;
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = same_letter(a[i - 1], b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string_view> nearest(std::string_view written, std::span<const std::string_view> names) {
  if (written.size() > kLongest) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t fewest = 0;
  for (const std::string_view name : names) {
    const std::size_t needed = changes(written, name);
    if (3 * needed > std::max(written.size(), name.size()) || (best && needed >= fewest)) continue;
    best = name;
    fewest = needed;
  }
  return best;
}

std::string did_you_mean(std::string_view written, std::span<const std::string_view> names) {
  const std::optional<std::string_view> name = nearest(written, names);
  return name ? text("; did you mean ", *name, "?") : "";
}

}  // namespace ravnest
