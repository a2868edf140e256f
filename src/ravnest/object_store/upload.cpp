#include "ravnest/object_store/upload.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/file.h"
#include "ravnest/identity/digest.h"
#include "ravnest/object_store/parts.h"
#include "ravnest/object_store/verify.h"

namespace ravnest::object_store {
namespace {

constexpr std::uint64_t kMostPartsOfOne = 10'000;
constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

// Whether to give up the parts that are there: another try could not use them, or will not come.
bool is_final(Code code) { return code != Code::kCancelled && code != Code::kUnavailable && code != Code::kDeadline; }

class Upload {
 public:
  Upload(Requests& requests, const StoreOptions& options, const std::filesystem::path& from, const ObjectName& to,
         const Progress& progress)
      : requests_(requests), options_(options), path_(from.string()), to_(to), progress_(progress) {}

  Status run() {
    if (Status opened = open(); !opened.ok()) return opened;
    const auto digests = digest_file(file_.number(), size_, path_, false, [&] { return told(0); });
    if (!digests.ok()) return digests.status();
    sha256_ = digests->sha256;
    const auto before = facts();
    if (!before.ok()) return before.status();
    if (is_ours(*before)) return told(size_) ? Status() : cancelled("the transfer was ended");
    return size_ < options_.multipart_from ? put_whole() : put_in_parts();
  }

 private:
  bool told(std::uint64_t done) const { return !progress_ || progress_(done, size_); }

  Status open() {
    // Not waited for where it is a pipe.
    file_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file_.is_open()) return system_failure("open", path_, errno);
    if (::fstat(file_.number(), &opened_) != 0) return system_failure("examine", path_, errno);
    if (!S_ISREG(opened_.st_mode)) return invalid("cannot put ", path_, ": it is not a regular file");
    size_ = static_cast<std::uint64_t>(opened_.st_size);
    return {};
  }

  // A file that is written to while it is sent would be an object that never was a file.
  Status check_unchanged() const {
    struct stat now {};
    if (::fstat(file_.number(), &now) != 0) return system_failure("examine", path_, errno);
    if (now.st_size == opened_.st_size && now.st_mtim.tv_sec == opened_.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec)
      return {};
    return corrupt(path_, " was changed while it was put to ", shown(to_), "; run the same command again");
  }

  // Of the object that is there; nothing where there is none, or where we may not know.
  Result<std::optional<ObjectFacts>> facts() {
    S3Request request;
    request.action = "look at " + shown(to_);
    request.method = "HEAD";
    request.name = to_;
    request.go_on = [&](std::uint64_t /*sent*/) { return told(0); };
    const auto answer = requests_.send(request);
    if (!answer.ok()) {
      if (!is_final(answer.status().code())) return answer.status();
      return std::optional<ObjectFacts>();
    }
    auto facts = facts_of(*answer);
    if (!facts.ok()) return facts.status();
    return std::optional(std::move(*facts));
  }

  bool is_ours(const std::optional<ObjectFacts>& facts) const {
    return facts && facts->size == size_ && facts->sha256 == sha256_;
  }

  // That the object is there as it should be: by our digest, and where a server keeps no words beside objects, by size.
  Status verify() {
    const auto after = facts();
    if (!after.ok()) return after.status();
    if (!*after) return unavailable(shown(to_), " was put, but cannot be looked at: the key may not read it");
    if (is_ours(*after) || ((*after)->sha256.empty() && (*after)->size == size_)) return {};
    return corrupt(shown(to_), " is not what was put: it has ", (*after)->size, " bytes and the digest ",
                   (*after)->sha256.empty() ? "of none" : (*after)->sha256, ", and not ", size_, " and ", sha256_,
                   "; somebody else may have written it meanwhile");
  }

  Status put_whole() {
    std::vector<std::byte> bytes(size_);
    if (Status read = read_at(file_.number(), 0, bytes, path_); !read.ok()) return read;
    if (Status same = check_unchanged(); !same.ok()) return same;
    S3Request request;
    request.action = "put " + shown(to_);
    request.method = "PUT";
    request.name = to_;
    request.body = bytes;
    request.body_sha256 = sha256_;
    request.headers = {{std::string(kSha256Header), sha256_}, {"Content-Type", "application/octet-stream"}};
    const auto digest = identity::md5(bytes);
    if (digest.ok()) request.body_md5 = *digest;
    request.go_on = [&](std::uint64_t sent) { return told(std::min(sent, size_)); };
    const auto answer = requests_.send(request);
    if (!answer.ok()) return answer.status();
    if (!fits(*answer, digest.ok() ? *digest : ""))
      return corrupt("the server has other bytes of ", shown(to_), " than were sent");
    if (Status verified = verify(); !verified.ok()) return verified;
    return told(size_) ? Status() : cancelled("the transfer was ended");
  }

  Status put_in_parts() {
    part_bytes_ = part_bytes_for(size_, options_.part_bytes);
    etags_.assign((size_ + part_bytes_ - 1) / part_bytes_, "");
    auto resumed = find_begun();
    if (!resumed.ok()) return resumed.status();
    Status done;
    if (*resumed) {
      done = send_rest(**resumed);
      // Begun for another version of the file whose first parts were the same, or given up by someone meanwhile.
      if (done.code() != Code::kCorrupt && done.code() != Code::kNotFound) return done;
      etags_.assign(etags_.size(), "");
    }
    const auto begun = begin_upload(requests_, to_, sha256_, [&] { return told(0); });
    if (!begun.ok()) return begun.status();
    return send_rest(*begun);
  }

  ByteSpan part(std::size_t i, std::vector<std::byte>& buffer, Status& read) const {
    const std::uint64_t offset = i * part_bytes_;
    buffer.resize(std::min(part_bytes_, size_ - offset));
    read = read_at(file_.number(), offset, buffer, path_);
    return buffer;
  }

  // The upload that has most of the file already; its parts' ETags are in `etags_`.
  Result<std::optional<PartUpload>> find_begun() {
    const auto go_on = [&] { return told(0); };
    auto uploads = unfinished_uploads(requests_, to_, go_on);
    if (!uploads.ok()) return uploads.status();
    std::optional<PartUpload> best;
    std::size_t most = 0;
    std::vector<std::string> best_etags = etags_;
    for (const PartUpload& upload : *uploads) {
      const auto listed = parts_of(requests_, upload, go_on);
      if (!listed.ok()) {
        if (is_final(listed.status().code())) continue;
        return listed.status();
      }
      auto matched = matching(*listed);
      if (!matched.ok()) return matched.status();
      const auto count = static_cast<std::size_t>(
          std::ranges::count_if(*matched, [](const std::string& etag) { return !etag.empty(); }));
      if (count <= most) continue;
      most = count;
      best = upload;
      best_etags = std::move(*matched);
    }
    etags_ = std::move(best_etags);
    return best;
  }

  // Of the parts that the server has, those whose ETag is the MD5 of what stands there in the file.
  Result<std::vector<std::string>> matching(const std::vector<ListedPart>& listed) const {
    std::vector<std::string> etags(etags_.size());
    std::vector<std::byte> buffer;
    for (const ListedPart& there : listed) {
      const auto i = static_cast<std::size_t>(there.number - 1);
      if (i >= etags.size() || there.size != std::min(part_bytes_, size_ - i * part_bytes_)) continue;
      if (!told(0)) return cancelled("the transfer was ended");
      Status read;
      const ByteSpan bytes = part(i, buffer, read);
      if (!read.ok()) return read;
      const auto digest = identity::md5(bytes);
      if (digest.ok() && identity::to_hex(*digest) == there.etag) etags[i] = there.etag;
    }
    return etags;
  }

  Status send_rest(const PartUpload& upload) {
    std::vector<std::size_t> missing;
    std::uint64_t there = 0;
    for (std::size_t i = 0; i < etags_.size(); ++i) {
      if (etags_[i].empty()) {
        missing.push_back(i);
      } else {
        there += std::min(part_bytes_, size_ - i * part_bytes_);
      }
    }
    Status done = send(upload, missing, there);
    if (done.ok()) done = check_unchanged();
    if (done.ok()) done = complete(upload);
    if (!done.ok() && is_final(done.code())) abort_upload(requests_, upload);
    if (!done.ok()) return done;
    return told(size_) ? Status() : cancelled("the transfer was ended");
  }

  Status send(const PartUpload& upload, const std::vector<std::size_t>& missing, std::uint64_t there) {
    Crew crew(there, size_, progress_);
    return crew.run(missing, options_.parallel, [&](std::size_t i, Crew::Piece& piece) {
      std::vector<std::byte> buffer;
      Status read;
      const ByteSpan bytes = part(i, buffer, read);
      if (!read.ok()) return read;
      const auto go_on = [&](std::uint64_t sent) { return piece.moved(std::min<std::uint64_t>(sent, bytes.size())); };
      auto etag = send_part(requests_, upload, static_cast<int>(i + 1), bytes, go_on);
      if (!etag.ok()) return etag.status();
      etags_[i] = std::move(*etag);  // each thread its own
      return piece.moved(bytes.size()) ? Status() : cancelled("the transfer was ended");
    });
  }

  Status complete(const PartUpload& upload) {
    const Status done = complete_upload(requests_, upload, etags_, [&] { return told(size_); });
    // Completed by a try whose answer was lost: there is no such upload any more, and the object is there.
    if (!done.ok() && done.code() != Code::kNotFound) return done;
    const Status verified = verify();
    return done.ok() || verified.ok() ? verified : done;
  }

  Requests& requests_;
  const StoreOptions& options_;
  const std::string path_;
  const ObjectName to_;
  const Progress& progress_;
  Descriptor file_;
  struct stat opened_ {};
  std::uint64_t size_ = 0;
  std::string sha256_;
  std::uint64_t part_bytes_ = 0;
  std::vector<std::string> etags_;  // of parts that the server has; empty: to be sent
};

}  // namespace

std::uint64_t part_bytes_for(std::uint64_t size, std::uint64_t part_bytes) {
  if (size <= part_bytes * kMostPartsOfOne) return part_bytes;
  const std::uint64_t least = (size + kMostPartsOfOne - 1) / kMostPartsOfOne;
  return (least + kMebibyte - 1) / kMebibyte * kMebibyte;
}

Status upload(Requests& requests, const StoreOptions& options, const std::filesystem::path& from, const ObjectName& to,
              const Progress& progress) {
  return Upload(requests, options, from, to, progress).run();
}

}  // namespace ravnest::object_store
