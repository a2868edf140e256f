#include "ravnest/object_store/parts.h"

#include "ravnest/identity/digest.h"
#include "ravnest/identity/sha256.h"
#include "ravnest/object_store/verify.h"

namespace ravnest::object_store {
namespace {

// Of one key there are hardly ever more; each costs a request.
constexpr std::size_t kMostUploads = 50;

std::function<bool(std::uint64_t)> asking(const GoOn& go_on) {
  if (!go_on) return {};
  return [go_on](std::uint64_t /*sent*/) { return go_on(); };
}

S3Request about(const ObjectName& name, std::string method, std::string action) {
  S3Request request;
  request.action = std::move(action);
  request.method = std::move(method);
  request.name = name;
  return request;
}

std::string escaped(std::string_view text) {
  std::string written;
  for (const char byte : text) {
    switch (byte) {
      case '&': written += "&amp;"; break;
      case '<': written += "&lt;"; break;
      case '>': written += "&gt;"; break;
      default: written += byte;
    }
  }
  return written;
}

}  // namespace

Result<PartUpload> begin_upload(Requests& requests, const ObjectName& name, const std::string& sha256,
                                const GoOn& go_on) {
  S3Request request = about(name, "POST", "begin to put " + shown(name));
  request.query = {{"uploads", ""}};
  request.headers = {{std::string(kSha256Header), sha256}, {"Content-Type", "application/octet-stream"}};
  request.go_on = asking(go_on);
  const auto answer = requests.send(request);
  if (!answer.ok()) return answer.status();
  auto id = decode_upload_id(answer->body);
  if (!id.ok()) return id.status();
  return PartUpload{name, std::move(*id)};
}

Result<std::vector<PartUpload>> unfinished_uploads(Requests& requests, const ObjectName& name, const GoOn& go_on) {
  std::vector<PartUpload> found;
  UploadsPage page;
  do {
    S3Request request = about({name.bucket, ""}, "GET", "look for parts of " + shown(name));
    request.query = {{"uploads", ""}, {"prefix", name.key}, {"encoding-type", "url"}};
    if (!page.next_key.empty()) request.query.push_back({"key-marker", page.next_key});
    if (!page.next_id.empty()) request.query.push_back({"upload-id-marker", page.next_id});
    request.go_on = asking(go_on);
    const auto answer = requests.send(request);
    if (!answer.ok()) {
      const Code code = answer.status().code();
      // Not every server lists them, and not every key may: then all parts are sent. Some say so that there are none.
      if (code == Code::kUnsupported || code == Code::kInvalid || code == Code::kNotFound) return found;
      return answer.status();
    }
    auto decoded = decode_uploads(answer->body);
    if (!decoded.ok()) return decoded.status();
    page = std::move(*decoded);
    for (ListedUpload& upload : page.uploads) {
      if (upload.key == name.key && !upload.id.empty()) found.push_back({name, std::move(upload.id)});
    }
  } while (!page.next_key.empty() && found.size() < kMostUploads);
  return found;
}

Result<std::vector<ListedPart>> parts_of(Requests& requests, const PartUpload& upload, const GoOn& go_on) {
  std::vector<ListedPart> parts;
  std::string next;
  do {
    S3Request request = about(upload.name, "GET", "ask which parts of " + shown(upload.name) + " are there");
    request.query = {{"uploadId", upload.id}};
    if (!next.empty()) request.query.push_back({"part-number-marker", next});
    request.go_on = asking(go_on);
    const auto answer = requests.send(request);
    if (!answer.ok()) return answer.status();
    auto page = decode_parts(answer->body);
    if (!page.ok()) return page.status();
    if (!page->next.empty() && page->next == next) return corrupt("the server lists the same parts without an end");
    parts.insert(parts.end(), page->parts.begin(), page->parts.end());
    next = std::move(page->next);
  } while (!next.empty());
  return parts;
}

Result<std::string> send_part(Requests& requests, const PartUpload& upload, int number, ByteSpan bytes,
                              const std::function<bool(std::uint64_t sent)>& go_on) {
  S3Request request = about(upload.name, "PUT", text("put part ", number, " of ", shown(upload.name)));
  request.query = {{"partNumber", text(number)}, {"uploadId", upload.id}};
  request.body = bytes;
  auto sha256 = identity::sha256(bytes);
  if (!sha256.ok()) return sha256.status();
  request.body_sha256 = std::move(*sha256);
  const auto digest = identity::md5(bytes);
  const std::string md5 = digest.ok() ? *digest : "";
  request.body_md5 = md5;
  request.go_on = go_on;
  const auto answer = requests.send(request);
  if (!answer.ok()) return answer.status();
  if (!fits(*answer, md5)) {
    return corrupt("the server has part ", number, " of ", shown(upload.name), " with the ETag ",
                   bare_etag(answer->header("etag")), ", and the bytes that were sent have the MD5 ",
                   identity::to_hex(md5));
  }
  return bare_etag(answer->header("etag"));
}

Status complete_upload(Requests& requests, const PartUpload& upload, const std::vector<std::string>& etags,
                       const GoOn& go_on) {
  std::string body = R"(<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">)";
  for (std::size_t i = 0; i < etags.size(); ++i) {
    body += text("<Part><PartNumber>", i + 1, "</PartNumber><ETag>\"", escaped(etags[i]), "\"</ETag></Part>");
  }
  body += "</CompleteMultipartUpload>";
  S3Request request = about(upload.name, "POST", "complete " + shown(upload.name));
  request.query = {{"uploadId", upload.id}};
  request.headers = {{"Content-Type", "application/xml"}};
  request.body = as_byte_span(body);
  auto sha256 = identity::sha256(request.body);
  if (!sha256.ok()) return sha256.status();
  request.body_sha256 = std::move(*sha256);
  request.go_on = asking(go_on);
  request.is_slow = true;
  const auto answer = requests.send(request);
  if (!answer.ok()) return answer.status();
  return decode_completed(answer->body).status();
}

void abort_upload(Requests& requests, const PartUpload& upload) {
  S3Request request = about(upload.name, "DELETE", "give up " + shown(upload.name));
  request.query = {{"uploadId", upload.id}};
  static_cast<void>(requests.send(request).ok());
}

}  // namespace ravnest::object_store
