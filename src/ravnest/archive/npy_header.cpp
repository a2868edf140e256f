#include "ravnest/archive/npy_header.h"

#include <charconv>
#include <optional>
#include <set>

namespace ravnest::archive {
namespace {

constexpr std::size_t kMostNpyDimensions = 64;  // as numpy

// Walks the text. Each `take...` moves behind what it took, or stays and says no.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::size_t position() const { return position_; }

  bool take(std::string_view word) {
    skip_spaces();
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }

  std::optional<std::string> take_string() {
    skip_spaces();
    const std::string_view rest = text_.substr(position_);
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"')) return std::nullopt;
    const std::size_t end = rest.find(rest[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = rest.substr(1, end - 1);
    if (inside.find('\\') != std::string_view::npos) return std::nullopt;
    position_ += end + 1;
    return std::string(inside);
  }

  std::optional<std::int64_t> take_size() {
    skip_spaces();
    std::int64_t size = 0;
    const char* const end = text_.data() + text_.size();
    const auto [next, error] = std::from_chars(text_.data() + position_, end, size);
    if (error != std::errc() || size < 0) return std::nullopt;
    position_ = static_cast<std::size_t>(next - text_.data());
    take("L");  // numpy under Python 2
    return size;
  }

  // A list from its bracket to the one that closes it, whatever is in it.
  bool skip_list() {
    skip_spaces();
    int depth = 0;
    for (std::size_t i = position_; i < text_.size(); ++i) {
      if (text_[i] == '[') ++depth;
      if (text_[i] == ']') --depth;
      if (depth == 0) {
        const bool list = i > position_;
        if (list) position_ = i + 1;
        return list;
      }
    }
    return false;
  }

  bool at_end() {
    skip_spaces();
    return position_ == text_.size();
  }

 private:
  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

std::optional<std::vector<std::int64_t>> take_shape(Scanner& scanner) {
  if (!scanner.take("(")) return std::nullopt;
  std::vector<std::int64_t> shape;
  bool comma = true;
  while (!scanner.take(")")) {
    const std::optional<std::int64_t> size = comma ? scanner.take_size() : std::nullopt;
    if (!size || shape.size() == kMostNpyDimensions) return std::nullopt;
    shape.push_back(*size);
    comma = scanner.take(",");
  }
  if (shape.size() == 1 && !comma) return std::nullopt;  // (3) is a number
  return shape;
}

bool take_value(Scanner& scanner, std::string_view key, NpyHeader& header) {
  if (key == "descr") {
    const std::optional<std::string> descr = scanner.take_string();
    header.descr = descr.value_or("");
    return (descr && !descr->empty()) || scanner.skip_list();
  }
  if (key == "fortran_order") {
    header.fortran_order = scanner.take("True");
    return header.fortran_order || scanner.take("False");
  }
  if (key == "shape") {
    const std::optional<std::vector<std::int64_t>> shape = take_shape(scanner);
    header.shape = shape.value_or(std::vector<std::int64_t>());
    return shape.has_value();
  }
  return false;
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::string_view header, std::string_view name) {
  Scanner scanner(header);
  const auto broken = [&](std::string_view expected) {
    return corrupt(name, ": character ", scanner.position(), " of the header is not ", expected);
  };
  if (!scanner.take("{")) return broken("the { that it begins with");
  NpyHeader read;
  std::set<std::string> keys;
  bool comma = true;
  while (!scanner.take("}")) {
    const std::optional<std::string> key = comma ? scanner.take_string() : std::nullopt;
    if (!key || !keys.insert(*key).second || !scanner.take(":"))
      return broken("'descr', 'fortran_order' or 'shape', each once, or the end");
    if (!take_value(scanner, *key, read)) return broken("a value of 'descr', 'fortran_order' or 'shape'");
    comma = scanner.take(",");
  }
  if (keys.size() != 3) return corrupt(name, ": the header lacks 'descr', 'fortran_order' or 'shape'");
  if (!scanner.at_end()) return broken("the end");
  return read;
}

}  // namespace ravnest::archive
