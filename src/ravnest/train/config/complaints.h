// What is wrong with a settings file: all of it, so that people mend it once.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::train {

class Complaints {
 public:
  explicit Complaints(std::string file) : file_(std::move(file)) {}

  const std::string& file() const { return file_; }

  // `line` 0: of the file as a whole.
  void add(int line, std::string sentence) { all_.push_back({line, std::move(sentence)}); }
  bool has(int line) const;
  // A key that there is not, for which somebody most likely means `meant`: which is not missing, then.
  void mistyped(std::string meant) { meant_.insert(std::move(meant)); }
  bool is_mistyped(std::string_view key) const { return meant_.contains(key); }

  // kInvalid: in the order of lines, and a line each with the file and where in it. Of very many only the first.
  Status status() const;

 private:
  struct Complaint {
    int line = 0;
    std::string sentence;
  };

  std::string file_;
  std::vector<Complaint> all_;
  std::set<std::string, std::less<>> meant_;
};

}  // namespace ravnest::train
