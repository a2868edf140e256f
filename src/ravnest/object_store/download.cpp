#include "ravnest/object_store/download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/file.h"
#include "ravnest/base/mutex.h"
#include "ravnest/object_store/download_note.h"
#include "ravnest/object_store/verify.h"

namespace ravnest::object_store {
namespace {

namespace fs = std::filesystem;

int opened(const fs::path& path, int flags) {
  int number = -1;
  do {
    number = ::open(path.c_str(), flags | O_CLOEXEC, kOrdinaryMode);
  } while (number < 0 && errno == EINTR);
  return number;
}

Status write_at(int descriptor, std::uint64_t offset, ByteSpan bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t some = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return system_failure("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(some));
    offset += static_cast<std::uint64_t>(some);
  }
  return {};
}

class Download {
 public:
  Download(Requests& requests, const StoreOptions& options, const ObjectName& from, const ObjectFacts& facts,
           const fs::path& to, const Progress& progress)
      : requests_(requests),
        options_(options),
        from_(from),
        facts_(facts),
        to_(to),
        part_(part_path(to)),
        note_(note_path(to)),
        progress_(progress) {}

  Status run() {
    if (Status begun = open(); !begun.ok()) return begun;
    if (Status room = make_room(); !room.ok()) return room;
    Status fetched = fetch();
    // What is there of another version is of no use to anybody.
    if (fetched.code() == Code::kCorrupt) discard();
    if (!fetched.ok()) return fetched;
    Status verified = verify();
    if (verified.code() == Code::kCorrupt) discard();
    if (!verified.ok()) return verified;
    return put_in_place();
  }

 private:
  // Opens the part and the note, and finds out what is there. Two that fetch into one file would mix their pieces.
  Status open() {
    if (Status locked = open_part(); !locked.ok()) return locked;
    const NoteHead head{shown(from_), requests_.settings().endpoint.url(), facts_.etag, facts_.size,
                        options_.part_bytes};
    struct stat there {};
    const bool is_whole =
        ::fstat(part_file_.number(), &there) == 0 && static_cast<std::uint64_t>(there.st_size) == facts_.size;
    if (const auto note = read_file(note_); note.ok() && is_whole) whole_ = decode_note(*note, head);
    const bool resumed = !whole_.empty();
    if (!resumed) whole_.assign((facts_.size + options_.part_bytes - 1) / options_.part_bytes, false);
    note_file_ = Descriptor(opened(note_, O_WRONLY | O_CREAT | O_APPEND | (resumed ? 0 : O_TRUNC)));
    if (!note_file_.is_open()) return system_failure("write", note_, errno);
    // A line that was cut off by a kill must not become a part of the next one.
    return add_to_note(resumed ? "\n" : encode_note_head(head));
  }

  Status open_part() {
    for (;;) {
      part_file_ = Descriptor(opened(part_, O_RDWR | O_CREAT));
      if (!part_file_.is_open()) return system_failure("write", part_, errno);
      if (::flock(part_file_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return unavailable(to_.string(), " is being fetched by another process");
      struct stat mine {};
      struct stat named {};
      // Between the two calls another process may have made it the file itself.
      if (::fstat(part_file_.number(), &mine) != 0) return system_failure("examine", part_, errno);
      if (::stat(part_.c_str(), &named) == 0 && named.st_ino == mine.st_ino && named.st_dev == mine.st_dev) return {};
    }
  }

  Status add_to_note(const std::string& line) {
    const ssize_t written = ::write(note_file_.number(), line.data(), line.size());
    if (written == static_cast<ssize_t>(line.size())) return {};
    return system_failure("write", note_, written < 0 ? errno : ENOSPC);
  }

  // A disk that has no room for all of it says so now, where it can.
  Status make_room() {
    if (::ftruncate(part_file_.number(), static_cast<off_t>(facts_.size)) != 0)
      return without_room(system_failure("write", part_, errno));
    if (facts_.size > 0 && ::fallocate(part_file_.number(), 0, 0, static_cast<off_t>(facts_.size)) != 0 &&
        (errno == ENOSPC || errno == EFBIG || errno == EDQUOT))
      return without_room(system_failure("write", part_, errno));
    return {};
  }

  Status without_room(const Status& status) {
    if (std::ranges::find(whole_, true) == whole_.end()) discard();
    return {status.code(), text(status.message(), "; ", shown(from_), " needs ", facts_.size, " bytes")};
  }

  Status fetch() {
    std::vector<std::size_t> missing;
    std::uint64_t there = 0;
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      if (whole_[i]) {
        there += end_of(i) - begin_of(i);
      } else {
        missing.push_back(i);
      }
    }
    Crew crew(there, facts_.size, progress_);
    return crew.run(missing, options_.parallel,
                    [&](std::size_t i, Crew::Piece& piece) { return fetch_piece(i, piece); });
  }

  std::uint64_t begin_of(std::size_t i) const { return i * options_.part_bytes; }
  std::uint64_t end_of(std::size_t i) const { return std::min(begin_of(i) + options_.part_bytes, facts_.size); }

  Status fetch_piece(std::size_t i, Crew::Piece& piece) {
    const std::uint64_t begin = begin_of(i);
    const std::uint64_t end = end_of(i);
    std::uint64_t at = begin;
    Status local;  // why bytes were not taken: the disk, or more of them than were asked for
    const auto answer = requests_.send([&] {
      S3Request request;
      request.action = "get " + shown(from_);
      request.method = "GET";
      request.name = from_;
      request.headers = {{"Range", text("bytes=", at, "-", end - 1)}, {"If-Match", "\"" + facts_.etag + "\""}};
      if (facts_.etag.empty()) request.headers.pop_back();
      request.take = [&](ByteSpan bytes) {
        if (bytes.size() > end - at) local = corrupt("the server sent more of ", shown(from_), " than was asked for");
        if (local.ok()) local = write_at(part_file_.number(), at, bytes, part_);
        if (!local.ok()) return false;
        at += bytes.size();
        return piece.moved(at - begin);
      };
      request.go_on = [&](std::uint64_t /*sent*/) { return piece.moved(at - begin); };
      return request;
    });
    if (!local.ok()) return local;
    if (!answer.ok()) return answer.status();
    // The last answer's range begins where that attempt did; what counts is where all of them end.
    if (at != end) return unavailable("the server sent ", at - begin, " of ", end - begin, " bytes of ", shown(from_));
    if (Status as_asked = check_range(*answer, begin, end, facts_.size); !as_asked.ok()) return as_asked;
    const MutexLock lock(mutex_);
    return add_to_note(text(i, "\n"));
  }

  Status verify() const {
    const bool by_md5 = facts_.sha256.empty() && facts_.etag_is_md5;
    if (facts_.sha256.empty() && !by_md5) return {};
    const auto go_on = [&] { return !progress_ || progress_(facts_.size, facts_.size); };
    const auto digests = digest_file(part_file_.number(), facts_.size, part_.string(), by_md5, go_on);
    if (!digests.ok()) return digests.status();
    const std::string& expected = by_md5 ? facts_.etag : facts_.sha256;
    const std::string& found = by_md5 ? digests->md5 : digests->sha256;
    if (found == expected || found.empty()) return {};
    return corrupt(shown(from_), " was damaged on its way or at the server: its ", by_md5 ? "MD5" : "SHA-256", " is ",
                   found, " and should be ", expected,
                   "; what was fetched is removed, the same command fetches it anew");
  }

  Status put_in_place() {
    if (::fsync(part_file_.number()) != 0) return system_failure("write", part_, errno);
    if (::rename(part_.c_str(), to_.c_str()) != 0) return system_failure("write", to_, errno);
    ::unlink(note_.c_str());
    const Descriptor folder(opened(folder_of(to_), O_RDONLY | O_DIRECTORY));
    if (folder.is_open()) ::fsync(folder.number());
    return {};
  }

  void discard() const {
    ::unlink(part_.c_str());
    ::unlink(note_.c_str());
  }

  Requests& requests_;
  const StoreOptions& options_;
  const ObjectName from_;
  const ObjectFacts facts_;
  const fs::path to_;
  const fs::path part_;
  const fs::path note_;
  const Progress& progress_;
  Descriptor part_file_;
  Descriptor note_file_;
  std::vector<bool> whole_;
  Mutex mutex_;  // of the note
};

}  // namespace

Status check_range(const HttpAnswer& answer, std::uint64_t begin, std::uint64_t end, std::uint64_t size) {
  const std::string expected = text("-", end - 1, "/", size);
  const std::string_view range = answer.header("content-range");
  // A server that does not know ranges sends all. Others (rclone's) say 200 and send the range.
  if (answer.status == 200 && range.empty()) {
    if (begin == 0 && end == size) return {};
    return unsupported("the server does not send parts of an object; it answered a Range with status 200");
  }
  if (range.starts_with("bytes ") && range.ends_with(expected)) return {};
  return corrupt("the server sent another range than bytes ", begin, expected);
}

Status download(Requests& requests, const StoreOptions& options, const ObjectName& from, const ObjectFacts& facts,
                const fs::path& to, const Progress& progress) {
  return Download(requests, options, from, facts, to, progress).run();
}

}  // namespace ravnest::object_store
