#include "ravnest/plan/files/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <thread>

#include "ravnest/base/file.h"

namespace ravnest::plan {
namespace {

namespace fs = std::filesystem;

constexpr auto kBetweenTries = std::chrono::milliseconds(5);

Status sync(const fs::path& path, int flags) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!file.is_open()) return system_failure("open", path, errno);
  const bool cannot = ::fsync(file.number()) != 0;
  if (cannot && errno != EINVAL && errno != ENOTSUP) return system_failure("write", path, errno);
  return {};
}

}  // namespace

Status make_folder(const fs::path& path, unsigned mode) {
  if (::mkdir(path.c_str(), mode) == 0) return {};
  const int error = errno;
  if (error == EEXIST) return invalid("cannot create ", path.string(), ": it exists already");
  return system_failure("create", path, error);
}

Result<std::vector<std::string>> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error) return system_failure("read", folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

Status move_to(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return system_failure(text("move ", from.string(), " to"), to, errno);
}

Status exchange(const fs::path& first, const fs::path& second) {
  if (::renameat2(AT_FDCWD, first.c_str(), AT_FDCWD, second.c_str(), RENAME_EXCHANGE) == 0) return {};
  const int error = errno;
  if (error == EINVAL || error == ENOSYS || error == ENOTSUP || error == EXDEV)
    return unsupported("the file system of ", second.string(), " cannot swap two names");
  return system_failure(text("swap ", first.string(), " with"), second, error);
}

Status remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? system_failure("remove", path, error.value()) : Status();
}

Status sync_folder(const fs::path& path) { return sync(path, O_DIRECTORY); }

Status sync_tree(const fs::path& path) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const fs::file_status status = at->symlink_status(error);
    if (error) break;
    if (!fs::is_directory(status) && !fs::is_regular_file(status))
      return invalid(at->path().string(), " is neither a file nor a folder");
    if (Status synced = sync(at->path(), O_NOFOLLOW); !synced.ok()) return synced;
  }
  return error ? system_failure("read", path, error.value()) : sync_folder(path);
}

bool FolderLock::is_taken(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Shared: two who only ask do not get in each other's way.
  return descriptor.is_open() && ::flock(descriptor.number(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Result<FolderLock> FolderLock::take(const fs::path& folder, std::chrono::milliseconds patience) {
  Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open()) return system_failure("open", folder, errno);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (::flock(descriptor.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) break;  // such a file system has no locks
    if (std::chrono::steady_clock::now() >= end) return unavailable(folder.string(), " is in use");
    std::this_thread::sleep_for(kBetweenTries);
  }
  return FolderLock(std::move(descriptor));
}

}  // namespace ravnest::plan
