#include "ravnest/train/config/lines.h"

#include <cctype>
#include <sstream>
#include <string_view>

#include "ravnest/base/text.h"

namespace ravnest::train {
namespace {

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Where `word` stands in `message`, not as a part of another.
std::size_t find_word(std::string_view message, std::string_view word) {
  for (std::size_t at = message.find(word); at != std::string_view::npos; at = message.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_letter(message[at - 1])) && (end == message.size() || !is_letter(message[end]))) return at;
  }
  return std::string_view::npos;
}

}  // namespace

int Lines::of(std::string_view complaint) const {
  int where = line;
  std::size_t first = std::string_view::npos;
  for (const auto& [key, its_line] : keys) {
    const std::size_t found = find_word(complaint, key);
    if (found >= first) continue;
    first = found;
    where = its_line;
  }
  return where;
}

Status Lines::at(const Status& failure) const {
  if (failure.code() != Code::kInvalid || line == 0) return failure;
  Status all;
  std::istringstream complaints(failure.message());
  for (std::string each; std::getline(complaints, each);)
    all = line_by_line(all, invalid(file, ", line ", of(each), ": [", table, "]: ", each));
  return all;
}

void Lines::add_to(Complaints& complaints, const Status& failure) const {
  if (line == 0 || complaints.has(line)) return;
  for (const auto& [key, its_line] : keys) {
    if (complaints.has(its_line)) return;
  }
  std::istringstream said(failure.message());
  for (std::string each; std::getline(said, each);) complaints.add(of(each), text("[", table, "]: ", each));
}

}  // namespace ravnest::train
