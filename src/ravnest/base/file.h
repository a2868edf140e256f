// Files, with failures that name the path and the system's reason.
//
// Codes: kNotFound where the path does not exist, kInvalid where it is of the wrong kind or not permitted,
// kUnavailable for everything that the machine may get over (I/O errors, a full disk, too many open files).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest {

// The permissions a file is created with where nothing else is asked for; the umask takes away from them.
inline constexpr unsigned kOrdinaryMode = 0666;
// For keys and what holds them: nobody but the owner reads the file, from its first moment and whatever the umask.
inline constexpr unsigned kPrivateMode = 0600;

// A failed system call on `path` as a sentence, "cannot ACTION PATH: REASON", with the code that `error`, an errno, has
// here.
Status system_failure(std::string_view action, const std::filesystem::path& path, int error);

// The folder that `path` lies in; "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

// A name for something unfinished in the folder of `path`: `.NAME.XXXXXXXX.tmp`, with random letters.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

// A regular file's bytes, mapped read-only for as long as the object lives.
//
// Move-only, and moving does not move the bytes; put it into a shared_ptr where several own it. Reading from several
// threads is safe. The mapping shows the file as it is: whoever replaces a mapped file must do so by a rename, as
// AtomicFile does. Shortening it in place makes later reads fault (SIGBUS).
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  ByteSpan bytes() const { return {data_, size_}; }
  std::size_t size() const { return size_; }

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A regular file's whole content; `as_byte_span` gives it as bytes. Anything else is kInvalid: a pipe is not waited
// for.
Result<std::string> read_file(const std::filesystem::path& path);

// A file that appears whole or not at all, under its final name only at `commit`.
//
// The bytes go to a temporary file in the same folder (see temporary_beside), created with `mode` less the umask.
// `commit` brings them to the disk and renames; a file of that name is replaced in one step, its permissions too.
// Without a commit the destructor removes the temporary file. After any failure the object stays failed and `commit`
// returns the first failure. Not thread-safe; two writers of one path do not disturb each other: the last commit wins.
// A writer that is killed leaves its temporary file behind; `create` removes those of the same path.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& path, unsigned mode = kOrdinaryMode);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  Status append(ByteSpan data);
  Status append(std::string_view data) { return append(as_byte_span(data)); }
  // Bytes appended so far, which is where the next append will start.
  std::uint64_t position() const { return position_; }
  // To be called once; a second call, or an append after it, is kInvalid.
  Status commit();

 private:
  // For folders of many small files, each written once.
  friend Status write_file_atomically(const std::filesystem::path& path, ByteSpan data, unsigned mode);
  static Result<AtomicFile> create_beside(const std::filesystem::path& path, unsigned mode);
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary, int descriptor);
  void discard() noexcept;
  Status fail(std::string_view action, int error);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::uint64_t position_ = 0;
  Status failure_;
};

// Removes the temporary files that writers of `path` have left behind who were killed: a writer that lives, here or on
// another machine that shares the folder, holds a lock on its own. What cannot be removed stays, without a word.
void remove_unfinished(const std::filesystem::path& path);

// AtomicFile for content that is already there and small.
Status write_file_atomically(const std::filesystem::path& path, ByteSpan data, unsigned mode = kOrdinaryMode);
Status write_file_atomically(const std::filesystem::path& path, std::string_view data, unsigned mode = kOrdinaryMode);

}  // namespace ravnest
