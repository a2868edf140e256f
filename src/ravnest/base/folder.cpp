#include "ravnest/base/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/file.h"

namespace ravnest {

Status sync_folder(const std::filesystem::path& folder) {
  // Some file systems cannot sync a folder and need not; nor can who may not open it.
  const Descriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (open.is_open() && ::fsync(open.number()) != 0 && errno != EINVAL) return system_failure("write", folder, errno);
  return {};
}

Status make_folders(const std::filesystem::path& folder) {
  std::error_code failure;
  if (folder.empty() || std::filesystem::is_directory(folder, failure)) return {};
  if (Status status = make_folders(folder.parent_path()); !status.ok()) return status;
  constexpr mode_t kLessTheUmask = 0777;
  if (::mkdir(folder.c_str(), kLessTheUmask) != 0) {
    const int error = errno;
    if (error != EEXIST || !std::filesystem::is_directory(folder, failure))
      return system_failure("create", folder, error);
  }
  return sync_folder(folder_of(folder));
}

}  // namespace ravnest
