#include "ravnest/object_store/verify.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "ravnest/base/file.h"
#include "ravnest/identity/digest.h"

namespace ravnest::object_store {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

bool is_hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool may_be_md5(const HttpAnswer& answer, std::string_view etag) {
  return is_hexadecimal(etag, 32) && !answer.header("x-amz-server-side-encryption").starts_with("aws:kms") &&
         answer.header("x-amz-server-side-encryption-customer-algorithm").empty();
}

}  // namespace

Result<ObjectFacts> facts_of(const HttpAnswer& answer) {
  const auto size = decode_count(answer.header("content-length"));
  if (!size.ok()) return size.status().with_context("the object's size");
  ObjectFacts facts;
  facts.size = *size;
  facts.etag = bare_etag(answer.header("etag"));
  facts.modified = std::string(answer.header("last-modified"));
  if (const std::string_view noted = answer.header(kSha256Header); is_hexadecimal(noted, 64)) facts.sha256 = noted;
  facts.etag_is_md5 = may_be_md5(answer, facts.etag);
  return facts;
}

bool fits(const HttpAnswer& answer, const std::string& md5) {
  const std::string etag = bare_etag(answer.header("etag"));
  return md5.empty() || !may_be_md5(answer, etag) || etag == identity::to_hex(md5);
}

Status read_at(int descriptor, std::uint64_t offset, std::span<std::byte> into, const std::string& path) {
  while (!into.empty()) {
    const ssize_t some = ::pread(descriptor, into.data(), into.size(), static_cast<off_t>(offset));
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return system_failure("read", path, errno);
    if (some == 0) return corrupt(path, " became shorter while it was read");
    into = into.subspan(static_cast<std::size_t>(some));
    offset += static_cast<std::uint64_t>(some);
  }
  return {};
}

Result<FileDigests> digest_file(int descriptor, std::uint64_t size, const std::string& path, bool with_md5,
                                const std::function<bool()>& go_on) {
  auto sha256 = identity::Digest::sha256();
  if (!sha256.ok()) return sha256.status();
  std::optional<identity::Digest> md5;
  if (with_md5) {
    auto made = identity::Digest::md5();
    if (made.ok()) md5 = std::move(*made);
  }
  std::vector<std::byte> buffer(std::min<std::uint64_t>(size, kReadBytes));
  for (std::uint64_t at = 0; at < size;) {
    if (go_on && !go_on()) return cancelled("the transfer was ended");
    const std::span some = std::span(buffer).first(std::min<std::uint64_t>(size - at, buffer.size()));
    if (Status read = read_at(descriptor, at, some, path); !read.ok()) return read;
    if (Status added = sha256->add(some); !added.ok()) return added;
    if (md5) {
      if (Status added = md5->add(some); !added.ok()) return added;
    }
    at += some.size();
  }
  FileDigests digests;
  const auto finished = sha256->finish();
  if (!finished.ok()) return finished.status();
  digests.sha256 = identity::to_hex(*finished);
  if (md5) {
    const auto md5_finished = md5->finish();
    if (!md5_finished.ok()) return md5_finished.status();
    digests.md5 = identity::to_hex(*md5_finished);
  }
  return digests;
}

}  // namespace ravnest::object_store
