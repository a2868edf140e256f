#include "ravnest/object_store/object_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/file.h"
#include "ravnest/identity/digest.h"
#include "ravnest/identity/sha256.h"
#include "ravnest/object_store/curl_http.h"
#include "ravnest/object_store/download.h"
#include "ravnest/object_store/parts.h"
#include "ravnest/object_store/upload.h"
#include "ravnest/object_store/verify.h"

namespace ravnest::object_store {
namespace {

constexpr std::string_view kPageKeys = "1000";

const Clock& machine_clock() {
  static const SystemClock clock;
  return clock;
}

std::function<bool(std::uint64_t)> asking_at(const std::function<bool()>& go_on) {
  if (!go_on) return {};
  return [go_on](std::uint64_t /*sent*/) { return go_on(); };
}

// As curl's own tool has it; http_proxy in capitals could come from a request in a CGI script.
CurlOptions curl_options(const Environment& environment, const Settings& settings) {
  const auto either = [&](const char* lower, const char* upper) {
    const std::string value = variable(environment, lower);
    return value.empty() ? variable(environment, upper) : value;
  };
  CurlOptions options;
  options.ca_bundle = settings.ca_bundle;
  options.http_proxy = variable(environment, "http_proxy");
  options.https_proxy = either("https_proxy", "HTTPS_PROXY");
  options.no_proxy = either("no_proxy", "NO_PROXY");
  return options;
}

// Whether a regular file of that size and digest stands there.
bool is_there(const std::filesystem::path& path, const ObjectFacts& facts, const std::function<bool()>& go_on) {
  if (facts.sha256.empty()) return false;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file.is_open() || ::fstat(file.number(), &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<std::uint64_t>(info.st_size) != facts.size)
    return false;
  const auto digests = digest_file(file.number(), facts.size, path.string(), false, go_on);
  return digests.ok() && digests->sha256 == facts.sha256;
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> ObjectStore::open(const Environment& environment, const StoreOptions& options) {
  auto settings = read_settings(environment);
  if (!settings.ok()) return settings.status();
  auto http = make_curl_http(curl_options(environment, *settings), machine_clock());
  if (!http.ok()) return http.status();
  auto requests = std::make_unique<Requests>(std::move(*settings), environment, std::move(*http), options.requests,
                                             machine_surroundings());
  return std::make_unique<ObjectStore>(std::move(requests), options);
}

Status ObjectStore::put_file(const std::filesystem::path& from, const ObjectName& to, const Progress& progress) {
  return upload(*requests_, options_, from, to, progress);
}

Status ObjectStore::put_bytes(ByteSpan bytes, const ObjectName& to, const std::function<bool()>& go_on) {
  S3Request request;
  request.action = "put " + shown(to);
  request.method = "PUT";
  request.name = to;
  request.body = bytes;
  auto sha256 = identity::sha256(bytes);
  if (!sha256.ok()) return sha256.status();
  request.body_sha256 = *sha256;
  request.headers = {{std::string(kSha256Header), *sha256}, {"Content-Type", "application/octet-stream"}};
  const auto md5 = identity::md5(bytes);
  if (md5.ok()) request.body_md5 = *md5;
  request.go_on = asking_at(go_on);
  const auto answer = requests_->send(request);
  if (!answer.ok()) return answer.status();
  if (!fits(*answer, md5.ok() ? *md5 : ""))
    return corrupt("the server has other bytes of ", shown(to), " than were sent");
  return {};
}

Status ObjectStore::get_file(const ObjectName& from, const std::filesystem::path& to, const Progress& progress) {
  const auto go_on = [&] { return !progress || progress(0, 0); };
  const auto facts = head(from, go_on);
  if (!facts.ok()) return facts.status();
  if (is_there(to, *facts, go_on)) return {};
  return download(*requests_, options_, from, *facts, to, progress);
}

Result<std::string> ObjectStore::get_bytes(const ObjectName& from, std::uint64_t most_bytes,
                                           const std::function<bool()>& go_on) {
  std::string bytes;
  bool too_many = false;
  auto answer = requests_->send([&] {
    bytes.clear();
    S3Request request;
    request.action = "get " + shown(from);
    request.method = "GET";
    request.name = from;
    request.take = [&](ByteSpan some) {
      too_many = some.size() > most_bytes - bytes.size();
      if (!too_many) bytes += as_string_view(some);
      return !too_many;
    };
    request.go_on = asking_at(go_on);
    return request;
  });
  if (too_many)
    return invalid(shown(from), " has more than ", most_bytes, " bytes, which is more than it may have here");
  if (!answer.ok()) return answer.status();
  const auto facts = facts_of(*answer);
  if (!facts.ok()) return facts.status();
  const auto sha256 = identity::sha256(as_byte_span(bytes));
  if (!sha256.ok()) return sha256.status();
  if (bytes.size() != facts->size || (!facts->sha256.empty() && *sha256 != facts->sha256))
    return corrupt(shown(from), " was damaged on its way or at the server: its digest is not that of what was put");
  return bytes;
}

Result<ObjectFacts> ObjectStore::head(const ObjectName& name, const std::function<bool()>& go_on) {
  S3Request request;
  request.action = "get " + shown(name);
  request.method = "HEAD";
  request.name = name;
  request.go_on = asking_at(go_on);
  const auto answer = requests_->send(request);
  if (answer.ok()) return facts_of(*answer);
  const Code code = answer.status().code();
  if (code != Code::kNotFound && code != Code::kInvalid) return answer.status();
  // An answer to HEAD has no body, and so no reason. Asked for a byte, the server gives one.
  request.method = "GET";
  request.headers = {{"Range", "bytes=0-0"}};
  const auto with_reason = requests_->send(request);
  return with_reason.ok() ? answer.status() : with_reason.status();
}

Status ObjectStore::list(const ObjectName& prefix, bool recursive, const std::function<bool(const ListPage&)>& each,
                         const std::function<bool()>& go_on) {
  std::string next;
  do {
    S3Request request;
    request.action = "list " + shown(prefix);
    request.method = "GET";
    request.name = {prefix.bucket, ""};
    request.query = {
        {"list-type", "2"}, {"prefix", prefix.key}, {"encoding-type", "url"}, {"max-keys", std::string(kPageKeys)}};
    if (!recursive) request.query.push_back({"delimiter", "/"});
    if (!next.empty()) request.query.push_back({"continuation-token", next});
    request.go_on = asking_at(go_on);
    const auto answer = requests_->send(request);
    if (!answer.ok()) return answer.status();
    auto page = decode_list(answer->body);
    if (!page.ok()) return page.status().with_context("cannot list " + shown(prefix));
    if (!page->next.empty() && page->next == next)
      return corrupt("cannot list ", shown(prefix), ": the server gives the same page again and again");
    if (!each(*page)) return cancelled("the list was ended");
    next = std::move(page->next);
  } while (!next.empty());
  return {};
}

Status ObjectStore::remove(const ObjectName& name) {
  S3Request request;
  request.action = "remove " + shown(name);
  request.method = "DELETE";
  request.name = name;
  const auto answer = requests_->send(request);
  return answer.ok() || answer.status().code() == Code::kNotFound ? Status() : answer.status();
}

Status ObjectStore::check_put(const ObjectName& name, const std::function<bool()>& go_on) {
  const auto begun = begin_upload(*requests_, name, std::string(kEmptySha256), go_on);
  if (!begun.ok()) return begun.status();
  abort_upload(*requests_, *begun);
  return {};
}

}  // namespace ravnest::object_store
