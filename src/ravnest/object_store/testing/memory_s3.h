// A server in memory that does what transfers ask for: objects, ranges of a version, uploads in parts, lists.
//
// It checks no signatures: tests/python/support/s3_server.py does. Any thread may send.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/identity/digest.h"
#include "ravnest/object_store/http.h"
#include "ravnest/object_store/object_name.h"
#include "ravnest/object_store/object_store.h"

namespace ravnest::object_store {

class MemoryS3 final : public HttpClient {
 public:
  struct Object {
    std::string bytes;
    std::string etag;
    std::string sha256;
  };
  struct Upload {
    std::string sha256;
    std::map<int, std::string> parts;
  };

  // Asked before each request, under no lock: a failure or an answer in place of the server's own.
  std::function<std::optional<Result<HttpAnswer>>(const HttpRequest&)> instead;

  Result<HttpAnswer> send(const HttpRequest& request) override {
    if (instead) {
      if (auto other = instead(request)) return std::move(*other);
    }
    const MutexLock lock(mutex_);
    sent_.push_back(request.method + " " + request.url.substr(request.url.find("/lab")));
    if (request.method == "PUT") received_bytes_ += request.body.size();
    return answer(request);
  }

  // What was asked for, "PUT /lab/key?partNumber=1&uploadId=u0".
  std::vector<std::string> sent() const {
    const MutexLock lock(mutex_);
    return sent_;
  }
  // Of objects and parts.
  std::uint64_t received_bytes() const {
    const MutexLock lock(mutex_);
    return received_bytes_;
  }
  std::map<std::string, Object> objects() const {
    const MutexLock lock(mutex_);
    return objects_;
  }
  std::map<std::string, Upload> uploads() const {
    const MutexLock lock(mutex_);
    return uploads_;
  }
  void put(const std::string& key, std::string bytes, std::string sha256 = "") {
    const MutexLock lock(mutex_);
    std::string etag = md5_of(bytes);
    objects_[key] = {std::move(bytes), std::move(etag), std::move(sha256)};
  }

 private:
  static std::string md5_of(std::string_view bytes) {
    return identity::to_hex(identity::md5(as_byte_span(bytes)).value());
  }
  static std::string header(const HttpRequest& request, std::string_view name) {
    for (const Header& each : request.headers) {
      if (each.name == name) return each.value;
    }
    return "";
  }
  // The value of `name` in the query; nothing where it is not there.
  static std::optional<std::string> query(const HttpRequest& request, const std::string& name) {
    const std::size_t begin = request.url.find_first_of('?');
    if (begin == std::string::npos) return std::nullopt;
    const std::string all = "&" + request.url.substr(begin + 1) + "&";
    const std::size_t at = all.find("&" + name + "=");
    if (at == std::string::npos) return std::nullopt;
    const std::size_t value = at + name.size() + 2;
    return all.substr(value, all.find('&', value) - value);
  }
  static HttpAnswer error(int status, const std::string& code) {
    return {status, {}, "<Error><Code>" + code + "</Code></Error>"};
  }

  HttpAnswer answer(const HttpRequest& request) RAVNEST_REQUIRES(mutex_) {
    if (query(request, "list-type")) return list(percent_decoded(query(request, "prefix").value()).value());
    const std::size_t path = request.url.find("/lab") + 4;
    const std::string key =
        request.url.substr(std::min(path + 1, request.url.size()), request.url.find('?') - path - 1);
    const std::string body(as_string_view(request.body));
    const auto id = query(request, "uploadId");
    if (id) return about_upload(request, key, *id, body);
    if (query(request, "uploads")) return request.method == "POST" ? begin_upload(request) : list_uploads(key);
    if (request.method == "PUT") {
      objects_[key] = {body, md5_of(body), header(request, std::string(kSha256Header))};
      return {200, {{"etag", "\"" + objects_[key].etag + "\""}}, ""};
    }
    if (request.method == "DELETE") return objects_.erase(key) > 0 ? HttpAnswer{204, {}, ""} : error(404, "NoSuchKey");
    const auto found = objects_.find(key);
    if (found == objects_.end()) return error(404, "NoSuchKey");
    return get(request, found->second);
  }

  HttpAnswer get(const HttpRequest& request, const Object& object) const {
    const std::string etag = "\"" + object.etag + "\"";
    const std::string match = header(request, "If-Match");
    if (!match.empty() && match != etag) return error(412, "PreconditionFailed");
    HttpAnswer answer{200, {{"etag", etag}, {"content-length", text(object.bytes.size())}}, ""};
    if (!object.sha256.empty()) answer.headers.push_back({std::string(kSha256Header), object.sha256});
    if (request.method == "HEAD") return answer;
    std::string bytes = object.bytes;
    if (const std::string range = header(request, "Range"); !range.empty()) {
      const std::size_t begin = std::stoul(range.substr(6));
      const std::size_t end = std::stoul(range.substr(range.find('-') + 1)) + 1;
      bytes = bytes.substr(begin, end - begin);
      answer.status = 206;
      answer.headers.push_back({"content-range", text("bytes ", begin, "-", end - 1, "/", object.bytes.size())});
    }
    if (request.take) {
      request.take(as_byte_span(bytes));
    } else {
      answer.body = bytes;
    }
    return answer;
  }

  HttpAnswer list(const std::string& prefix) const RAVNEST_REQUIRES(mutex_) {
    std::string listed = "<ListBucketResult>";
    for (const auto& [key, object] : objects_) {
      if (key.starts_with(prefix))
        listed += text("<Contents><Key>", key, "</Key><Size>", object.bytes.size(), "</Size></Contents>");
    }
    return {200, {}, listed + "</ListBucketResult>"};
  }

  HttpAnswer begin_upload(const HttpRequest& request) RAVNEST_REQUIRES(mutex_) {
    const std::string id = text("u", begun_++);
    uploads_[id].sha256 = header(request, std::string(kSha256Header));
    return {200, {}, "<InitiateMultipartUploadResult><UploadId>" + id + "</UploadId></InitiateMultipartUploadResult>"};
  }

  HttpAnswer list_uploads(const std::string&) RAVNEST_REQUIRES(mutex_) {
    std::string listed = "<ListMultipartUploadsResult>";
    for (const auto& [id, upload] : uploads_)
      listed += "<Upload><Key>key</Key><UploadId>" + id + "</UploadId></Upload>";
    return {200, {}, listed + "</ListMultipartUploadsResult>"};
  }

  HttpAnswer about_upload(const HttpRequest& request, const std::string& key, const std::string& id,
                          const std::string& body) RAVNEST_REQUIRES(mutex_) {
    const auto found = uploads_.find(id);
    if (found == uploads_.end()) return error(404, "NoSuchUpload");
    std::map<int, std::string>& parts = found->second.parts;
    if (request.method == "PUT") {
      parts[std::stoi(*query(request, "partNumber"))] = body;
      return {200, {{"etag", "\"" + md5_of(body) + "\""}}, ""};
    }
    if (request.method == "DELETE") {
      uploads_.erase(found);
      return {204, {}, ""};
    }
    if (request.method == "GET") {
      std::string listed = "<ListPartsResult>";
      for (const auto& [number, bytes] : parts) {
        listed += text("<Part><PartNumber>", number, "</PartNumber><Size>", bytes.size(), "</Size><ETag>\"",
                       md5_of(bytes), "\"</ETag></Part>");
      }
      return {200, {}, listed + "</ListPartsResult>"};
    }
    Object object{"", "", found->second.sha256};
    for (const auto& [number, bytes] : parts) object.bytes += bytes;
    object.etag = md5_of(object.bytes) + text("-", parts.size());
    objects_[key] = object;
    uploads_.erase(found);
    return {200, {}, "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"};
  }

  mutable Mutex mutex_;
  std::map<std::string, Object> objects_ RAVNEST_GUARDED_BY(mutex_);
  std::map<std::string, Upload> uploads_ RAVNEST_GUARDED_BY(mutex_);
  std::vector<std::string> sent_ RAVNEST_GUARDED_BY(mutex_);
  std::uint64_t received_bytes_ RAVNEST_GUARDED_BY(mutex_) = 0;
  int begun_ RAVNEST_GUARDED_BY(mutex_) = 0;
};

}  // namespace ravnest::object_store
