// One request over HTTP and its answer, whoever sends it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"

namespace ravnest::object_store {

struct Header {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<Header> headers = {};
  ByteSpan body = {};  // has to stay until the answer is there
  // Takes the bytes of an answer of status 2xx as they come, in place of HttpAnswer::body; false ends the request.
  std::function<bool(ByteSpan)> take = {};
  // Asked about once a second, and more often while bytes move, with those of the body sent so far; false cancels.
  std::function<bool(std::uint64_t sent)> go_on = {};
  // Given up, with kDeadline, after so long without a byte.
  Duration stall = std::chrono::seconds(30);
  bool through_proxy = true;
};

struct HttpAnswer {
  int status = 0;
  std::vector<Header> headers = {};  // names in lower case
  std::string body = {};

  // Of that name, in lower case; empty where there is none.
  std::string_view header(std::string_view name) const {
    for (const Header& each : headers) {
      if (each.name == name) return each.value;
    }
    return {};
  }
};

// Any thread may send, and several at once.
class HttpClient {
 public:
  HttpClient() = default;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  virtual ~HttpClient() = default;

  // Any answer of the server's is a value, whatever its status. kUnavailable where the network or the other side
  // failed, kDeadline where nothing came for too long: both may be tried again. kCancelled where `go_on` or `take` said
  // so. kInvalid where trying again cannot help: no library, a certificate that is not trusted, a name that is none.
  // kCorrupt for an answer that is longer than anything we ask for.
  virtual Result<HttpAnswer> send(const HttpRequest& request) = 0;
};

}  // namespace ravnest::object_store
