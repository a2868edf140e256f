#include "ravnest/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <system_error>
#include <utility>

#include "ravnest/base/descriptor.h"

namespace ravnest {
namespace {

namespace fs = std::filesystem;

Code code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return Code::kNotFound;
    case EACCES:
    case EPERM:
    case EISDIR:
    case EROFS:
    case ELOOP:
    case ENAMETOOLONG: return Code::kInvalid;
    default: return Code::kUnavailable;
  }
}

int open_retrying(const fs::path& path, int flags, mode_t mode = 0) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// Non-blocking, so that a named pipe is refused instead of waited for.
Result<Descriptor> open_regular(const fs::path& path, std::string_view action, struct stat& info) {
  Descriptor file(open_retrying(path, O_RDONLY | O_NONBLOCK));
  if (file.number() < 0) return system_failure("open", path, errno);
  if (::fstat(file.number(), &info) != 0) return system_failure("examine", path, errno);
  if (S_ISDIR(info.st_mode)) return system_failure(action, path, EISDIR);
  if (!S_ISREG(info.st_mode)) return invalid("cannot ", action, " ", path.string(), ": not a regular file");
  return file;
}

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";
constexpr std::size_t kSuffixLetters = 8;
constexpr std::string_view kEnd = ".tmp";

// The lock lasts as long as the descriptor, and its file is no one's to remove meanwhile. False where someone who
// takes it for a leftover was faster: between the two calls it looked like one. Where there are no locks nobody
// removes.
bool is_locked_in_time(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat info {};
  return ::fstat(descriptor, &info) != 0 || info.st_nlink > 0;
}

bool is_temporary_of(const std::string& file, const std::string& name) {
  const std::string begin = "." + file + ".";
  if (name.size() != begin.size() + kSuffixLetters + kEnd.size() || !name.starts_with(begin) || !name.ends_with(kEnd))
    return false;
  const std::string_view suffix = std::string_view(name).substr(begin.size(), kSuffixLetters);
  return suffix.find_first_not_of(kLetters) == std::string_view::npos;
}

}  // namespace

Status system_failure(std::string_view action, const fs::path& path, int error) {
  return {code_of(error), text("cannot ", action, " ", path.string(), ": ", std::generic_category().message(error))};
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

fs::path temporary_beside(const fs::path& path) {
  std::random_device random;
  std::string suffix(kSuffixLetters, '\0');
  std::generate(suffix.begin(), suffix.end(), [&] { return kLetters[random() % kLetters.size()]; });
  return folder_of(path) / text(".", path.filename().string(), ".", suffix, kEnd);
}

Result<MappedFile> MappedFile::open(const fs::path& path) {
  struct stat info {};
  const auto file = open_regular(path, "map", info);
  if (!file.ok()) return file.status();
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->number(), 0);
  if (data == MAP_FAILED) return system_failure("map", path, errno);
  return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  MappedFile taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> read_file(const fs::path& path) {
  struct stat info {};
  const auto file = open_regular(path, "read", info);
  if (!file.ok()) return file.status();
  std::string content;
  std::array<char, 1 << 16> block;
  while (true) {
    const ssize_t count = ::read(file->number(), block.data(), block.size());
    if (count == 0) return content;
    if (count > 0) {
      content.append(block.data(), static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      return system_failure("read", path, errno);
    }
  }
}

void remove_unfinished(const fs::path& path) {
  const std::string own = path.filename().string();
  std::error_code error;
  for (fs::directory_iterator at(folder_of(path), error), end; !error && at != end; at.increment(error)) {
    if (!is_temporary_of(own, at->path().filename().string())) continue;
    const Descriptor left(open_retrying(at->path(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW));
    if (left.is_open() && ::flock(left.number(), LOCK_EX | LOCK_NB) == 0) ::unlink(at->path().c_str());
  }
}

Result<AtomicFile> AtomicFile::create(const fs::path& path, unsigned mode) {
  remove_unfinished(path);
  return create_beside(path, mode);
}

Result<AtomicFile> AtomicFile::create_beside(const fs::path& path, unsigned mode) {
  if (!path.has_filename()) return invalid("cannot create ", path.string(), ": it names no file");
  while (true) {
    fs::path temporary = temporary_beside(path);
    const int descriptor = open_retrying(temporary, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0) return system_failure("create", path, errno);
    if (is_locked_in_time(descriptor)) return AtomicFile(path, std::move(temporary), descriptor);
    ::close(descriptor);
  }
}

AtomicFile::AtomicFile(fs::path path, fs::path temporary, int descriptor)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      position_(std::exchange(other.position_, 0)),
      failure_(std::move(other.failure_)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this != &other) {
    discard();
    path_ = std::move(other.path_);
    temporary_ = std::move(other.temporary_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    position_ = std::exchange(other.position_, 0);
    failure_ = std::move(other.failure_);
  }
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::close(std::exchange(descriptor_, -1));
  ::unlink(temporary_.c_str());
}

Status AtomicFile::fail(std::string_view action, int error) {
  failure_ = system_failure(action, path_, error);
  discard();
  return failure_;
}

Status AtomicFile::append(ByteSpan data) {
  if (!failure_.ok()) return failure_;
  if (descriptor_ < 0) return invalid("cannot append to ", path_.string(), ": it was committed already");
  while (!data.empty()) {
    const ssize_t count = ::write(descriptor_, data.data(), data.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return fail("write", errno);
    }
    data = data.subspan(static_cast<std::size_t>(count));
    position_ += static_cast<std::uint64_t>(count);
  }
  return {};
}

Status AtomicFile::commit() {
  if (!failure_.ok()) return failure_;
  if (descriptor_ < 0) return invalid("cannot commit ", path_.string(), ": it was committed already");
  if (::fsync(descriptor_) != 0) return fail("write", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail("replace", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) return fail("close", errno);
  // The new name is on the disk only once its folder is; some file systems cannot sync a folder and need not.
  const Descriptor folder(open_retrying(folder_of(path_), O_RDONLY | O_DIRECTORY));
  if (folder.number() >= 0 && ::fsync(folder.number()) != 0 && errno != EINVAL) return fail("write", errno);
  return {};
}

Status write_file_atomically(const fs::path& path, ByteSpan data, unsigned mode) {
  auto file = AtomicFile::create_beside(path, mode);
  if (!file.ok()) return file.status();
  if (Status status = file->append(data); !status.ok()) return status;
  return file->commit();
}

Status write_file_atomically(const fs::path& path, std::string_view data, unsigned mode) {
  return write_file_atomically(path, as_byte_span(data), mode);
}

}  // namespace ravnest
