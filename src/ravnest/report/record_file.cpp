#include "ravnest/report/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>

#include "ravnest/base/file.h"
#include "ravnest/base/text.h"

namespace ravnest::report {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDecimals = 17;

fs::path numbered(const fs::path& path, int number) {
  return number == 0 ? path : fs::path(text(path.string(), ".", number));
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

Status move_unless_taken(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  int error = errno;
  if (error == EINVAL || error == ENOSYS) {
    // Some file systems know no such rename; there we rely on having looked.
    if (is_there(to)) {
      error = EEXIST;
    } else if (::rename(from.c_str(), to.c_str()) == 0) {
      return {};
    } else {
      error = errno;
    }
  }
  return system_failure(text("keep ", from.string(), " as"), to, error);
}

Status keep_earlier(const fs::path& path) {
  int free = 0;
  while (is_there(numbered(path, free))) ++free;
  for (int number = free; number > 0; --number) {
    const Status moved = move_unless_taken(numbered(path, number - 1), numbered(path, number));
    if (!moved.ok()) return moved;
  }
  return {};
}

std::string line_of(double value, int decimals) {
  if (std::isnan(value)) return "nan\n";  // the sign of a NaN says nothing
  std::array<char, 340 + kMostDecimals> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed,
                                 std::clamp(decimals, 0, kMostDecimals));
  return std::string(digits.data(), end.ptr) + "\n";
}

}  // namespace

Result<RecordFile> RecordFile::begin(fs::path path) {
  if (!path.has_filename()) return invalid("cannot begin ", path.string(), ": it names no file");
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return system_failure("write", path, EISDIR);
  const bool as_it_is = exists && !S_ISREG(info.st_mode);
  if (!as_it_is) {
    if (Status kept = keep_earlier(path); !kept.ok()) return kept;
  }
  // A pipe that nobody reads is refused instead of waited for.
  const int how = as_it_is ? O_NONBLOCK : O_CREAT | O_EXCL;
  Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | how, kOrdinaryMode));
  if (!file.is_open()) return system_failure(as_it_is ? "open" : "create", path, errno);
  if (as_it_is) ::fcntl(file.number(), F_SETFL, O_APPEND);
  return RecordFile(std::move(path), std::move(file));
}

Result<RecordFile> RecordFile::go_on(fs::path path, std::uint64_t lines) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return begin(std::move(path));
  const auto contents = read_file(path);
  if (!contents.ok()) return contents.status();
  std::size_t end = 0;
  for (std::uint64_t line = 0; line < lines; ++line) {
    const std::size_t newline = contents->find('\n', end);
    if (newline == std::string::npos) {
      return invalid(path.string(), " has ", line, " lines, and the run goes on after ", lines,
                     ": it is not this run's file, or was cut");
    }
    end = newline + 1;
  }
  Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file.is_open()) return system_failure("open", path, errno);
  if (::ftruncate(file.number(), static_cast<off_t>(end)) != 0) return system_failure("cut", path, errno);
  return RecordFile(std::move(path), std::move(file));
}

Status RecordFile::append(double value, int decimals) {
  const std::string line = line_of(value, decimals);
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t count = ::write(file_.number(), rest.data(), rest.size());
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      const Status failure = system_failure("write", path_, errno);
      const auto written = static_cast<off_t>(line.size() - rest.size());
      const off_t end = ::lseek(file_.number(), 0, SEEK_END);
      // Half a line would read as another number. A pipe cannot take it back; its reader sees the end anyway.
      if (written > 0 && end >= written) static_cast<void>(!::ftruncate(file_.number(), end - written));
      return failure;
    }
  }
  return {};
}

}  // namespace ravnest::report
