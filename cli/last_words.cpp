#include "last_words.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"

namespace ravnest::cli {
namespace {

// What stands before a sentence of ours: the command's, and Python's where it happened.
constexpr std::array<std::string_view, 2> kOurs = {kOwn, "ravnest.Error: "};
// Under kOwn.
constexpr std::string_view kFurther = "         ";
static_assert(kFurther.size() == kOwn.size());

bool is_ours(std::string_view line) {
  return std::ranges::any_of(kOurs, [&](std::string_view begin) { return line.starts_with(begin); });
}

std::vector<std::string> lines_of(const std::string& sentence) {
  std::vector<std::string> lines;
  std::istringstream in(sentence);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

std::string in_lines(const std::string& sentence) { return join(lines_of(sentence), text('\n', kFurther)); }

std::vector<std::string> LastWords::on_line(const std::string& node, std::string_view line) {
  if (const auto held = held_.find(node); held != held_.end() && line.starts_with(kFurther)) {
    held->second += text('\n', line);
    return {};
  }
  std::vector<std::string> shown;
  if (line.find_first_not_of(' ') != std::string_view::npos) last_[node] = line;
  if (auto earlier = held_.extract(node)) shown = lines_of(earlier.mapped());
  if (is_ours(line)) {
    held_.emplace(node, line);
  } else {
    shown.emplace_back(line);
  }
  return shown;
}

std::vector<std::string> LastWords::on_end(const std::string& node, int status) {
  std::vector<std::string> shown;
  if (status != 0) {
    if (!failed_) failed_ = node;
    return shown;
  }
  if (auto held = held_.extract(node)) shown = lines_of(held.mapped());
  return shown;
}

std::vector<std::string> LastWords::sentences() const {
  std::vector<std::string> all;
  for (const auto& [node, line] : held_) {
    std::string sentence = in_one_sentence(line.substr(line.find(' ') + 1));
    if (std::ranges::any_of(all, [&](const std::string& other) { return other.find(sentence) != std::string::npos; }))
      continue;
    std::erase_if(all, [&](const std::string& other) { return sentence.find(other) != std::string::npos; });
    all.push_back(std::move(sentence));
  }
  return all;
}

std::string LastWords::first_failure() const {
  if (!failed_) return {};
  const auto line = last_.find(*failed_);
  return line == last_.end() ? *failed_ + " failed without a word" : *failed_ + " failed: " + line->second;
}

}  // namespace ravnest::cli
