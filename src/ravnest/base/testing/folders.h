// For tests: temporary folders, and what lies in a folder.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "ravnest/base/file.h"

namespace ravnest::test {

// A new folder, removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ravnest_test_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A test with a folder of its own.
class FolderTest : public ::testing::Test {
 private:
  TemporaryFolder temporary_;

 protected:
  const std::filesystem::path folder_ = temporary_.path();
};

inline unsigned mode_of(const std::filesystem::path& path) {
  return static_cast<unsigned>(std::filesystem::status(path).permissions());
}

inline std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

// Every file below `folder` with its content, by relative path; a folder without files by its path and a slash.
inline std::map<std::string, std::string> contents_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = std::filesystem::relative(entry.path(), folder).string();
    if (entry.is_regular_file()) contents[path] = read_file(entry.path()).value();
    if (entry.is_directory() && std::filesystem::is_empty(entry.path())) contents[path + "/"] = "";
  }
  return contents;
}

// The files of `folder` that `wanted` names and all others below the same first names, with their content.
inline std::map<std::string, std::string> read_below(const std::filesystem::path& folder,
                                                     const std::map<std::string, std::string>& wanted) {
  std::set<std::string> first_names;
  for (const auto& [path, content] : wanted) first_names.insert(path.substr(0, path.find('/')));
  std::map<std::string, std::string> contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = std::filesystem::relative(entry.path(), folder).string();
    if (entry.is_regular_file() && first_names.contains(path.substr(0, path.find('/'))))
      contents[path] = read_file(entry.path()).value();
  }
  return contents;
}

inline void write(const std::filesystem::path& path, std::string_view content, unsigned mode = kOrdinaryMode) {
  std::filesystem::create_directories(path.parent_path());
  const Status status = write_file_atomically(path, content, mode);
  if (!status.ok()) throw std::runtime_error(status.message());
}

}  // namespace ravnest::test
