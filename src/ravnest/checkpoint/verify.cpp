#include "ravnest/checkpoint/verify.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"
#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/part_file.h"
#include "ravnest/identity/sha256.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;

class Verification {
 public:
  Verification(const Checkpoint& checkpoint, const VerifyOptions& options)
      : checkpoint_(checkpoint), options_(options), block_(std::size_t{4} << 20) {
    for (const PartEntry& part : checkpoint.manifest.parts) all_ += wanted(part) ? part.bytes : 0;
  }

  Result<std::vector<Flaw>> run() {
    std::vector<Flaw> flaws;
    for (const PartEntry& part : checkpoint_.manifest.parts) {
      if (!wanted(part)) continue;
      Status why = check_part_file(part);
      if (why.code() == Code::kCancelled) return why;
      if (!why.ok()) flaws.push_back({part.file, std::move(why)});
    }
    if (Status why = check_index(); !why.ok()) flaws.push_back({std::string(kIndexFile), std::move(why)});
    return flaws;
  }

 private:
  bool wanted(const PartEntry& part) const { return options_.parts.empty() || options_.parts.contains(part.name); }

  Status check_part_file(const PartEntry& part) {
    const fs::path path = checkpoint_.folder / part.file;
    std::error_code failure;
    const std::uintmax_t bytes = fs::file_size(path, failure);
    if (failure == std::errc::no_such_file_or_directory)
      return not_found(path.string(), " is not there; ", printable(part.holder), " has written it");
    if (failure) return system_failure("examine", path, failure.value());
    if (bytes != part.bytes)
      return corrupt(path.string(), " is torn: it has ", bytes, " bytes, and ", part.bytes, " were written");
    if (options_.digests) {
      if (Status status = check_digest(path, part); !status.ok()) return status;
    }
    return check_content(path, part);
  }

  Status check_digest(const fs::path& path, const PartEntry& part) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return system_failure("open", path, errno);
    identity::Sha256 hash;
    while (true) {
      const ssize_t count = ::read(file.number(), block_.data(), block_.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return system_failure("read", path, errno);
      if (count == 0) break;
      hash.add(ByteSpan(block_).first(static_cast<std::size_t>(count)));
      done_ += static_cast<std::uint64_t>(count);
      if (options_.progress && !options_.progress(done_, all_)) return cancelled("verifying was ended");
    }
    const Result<std::string> digest = hash.digits();
    if (!digest.ok()) return digest.status();
    if (*digest != part.sha256)
      return corrupt(path.string(), " is damaged: its SHA-256 is ", *digest, ", and ", part.sha256, " was written");
    return {};
  }

  Status check_content(const fs::path& path, const PartEntry& part) const {
    const Result<PartOwner> owner = read_part_owner(path);
    if (!owner.ok()) return owner.status();
    const Manifest& manifest = checkpoint_.manifest;
    if (owner->name != part.name || owner->run != manifest.run || owner->updates != manifest.updates)
      return corrupt(path.string(), " is ", printable(owner->name), " of run ", printable(owner->run), " at update ",
                     owner->updates, ", and should be ", printable(part.name), " of run ", printable(manifest.run),
                     " at update ", manifest.updates);
    return {};
  }

  Status check_index() const {
    const fs::path path = checkpoint_.folder / kIndexFile;
    const Result<std::string> written = read_file(path);
    if (!written.ok()) return written.status();
    const auto files = decode_index(*written, path.string());
    if (!files.ok()) return files.status();
    if (*written != encode_index(checkpoint_.manifest))
      return corrupt(path.string(), " says something else than ", kManifestFile,
                     " of which file has which tensor, or of how many bytes they take");
    return {};
  }

  const Checkpoint& checkpoint_;
  const VerifyOptions& options_;
  std::vector<std::byte> block_;
  std::uint64_t done_ = 0;
  std::uint64_t all_ = 0;
};

}  // namespace

Result<std::vector<Flaw>> verify(const Checkpoint& checkpoint, const VerifyOptions& options) {
  return Verification(checkpoint, options).run();
}

Status verified(const Checkpoint& checkpoint, const VerifyOptions& options) {
  const Result<std::vector<Flaw>> flaws = verify(checkpoint, options);
  if (!flaws.ok()) return flaws.status();
  Status all;
  for (const Flaw& flaw : *flaws) all = line_by_line(all, flaw.why);
  return all;
}

namespace {

// The readable ones, the newest first, at most so many; the others that were met on the way.
Result<std::vector<Checkpoint>> first_readable(const fs::path& root, const VerifyOptions& options, std::size_t most,
                                               std::vector<Unreadable>& passed_over) {
  Result<Listing> listing = list_checkpoints(root);
  if (!listing.ok()) return listing.status();
  std::vector<Checkpoint> readable;
  auto unreadable = listing->unreadable.begin();
  const auto pass_newer_than = [&](const fs::path& folder) {
    const auto updates = [](const fs::path& of) { return updates_of(of.filename().string()); };
    while (unreadable != listing->unreadable.end() && updates(unreadable->folder) > updates(folder))
      passed_over.push_back(*unreadable++);
  };
  for (Checkpoint& each : listing->complete) {
    if (readable.size() == most) return readable;
    pass_newer_than(each.folder);
    const Status status = verified(each, options);
    if (status.code() == Code::kCancelled) return status;
    if (status.ok())
      readable.push_back(std::move(each));
    else
      passed_over.push_back({each.folder, status});
  }
  if (readable.size() < most) passed_over.insert(passed_over.end(), unreadable, listing->unreadable.end());
  return readable;
}

}  // namespace

Result<std::vector<Checkpoint>> readable_checkpoints(const fs::path& root, const VerifyOptions& options,
                                                     std::vector<Unreadable>* passed_over) {
  std::vector<Unreadable> others;
  Result<std::vector<Checkpoint>> readable =
      first_readable(root, options, std::numeric_limits<std::size_t>::max(), others);
  if (readable.ok() && passed_over != nullptr) *passed_over = std::move(others);
  return readable;
}

Result<Readable> newest_readable(const fs::path& root, const VerifyOptions& options) {
  std::vector<Unreadable> passed_over;
  Result<std::vector<Checkpoint>> newest = first_readable(root, options, 1, passed_over);
  if (!newest.ok()) return newest.status();
  if (!newest->empty()) return Readable{std::move(newest->front()), std::move(passed_over)};
  if (passed_over.empty()) return not_found("there is no checkpoint in ", root.string());
  std::string reasons;
  for (const Unreadable& each : passed_over) reasons += text("\n  ", each.why.message());
  return not_found("none of the checkpoints in ", root.string(), " can be read:", reasons);
}

}  // namespace ravnest::checkpoint
