// Text in columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ravnest {

// Characters, not bytes: what people see.
std::size_t shown_width(std::string_view cell);

// Columns are as wide as their widest cell, two spaces apart. A column of numbers (cells that begin with a digit)
// stands right, any other left. One line per row; no line ends in spaces.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ravnest
