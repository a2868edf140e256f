// AWS's Signature Version 4 in a header, as a pure function.
//
// What is signed is what is sent: path and query come in as they stand in the request, percent-encoded once, as S3 has
// it, and every header that is given is signed. Nothing is read of the clock or of the environment.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/object_store/http.h"

namespace ravnest::object_store {

struct Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token = {};  // empty: of a user, not of a session
};

// A query's name and value, both percent-encoded.
struct QueryItem {
  std::string name;
  std::string value;

  friend bool operator<(const QueryItem& a, const QueryItem& b) {
    return std::tie(a.name, a.value) < std::tie(b.name, b.value);
  }
};

struct RequestToSign {
  std::string method;
  std::string path;
  std::vector<QueryItem> query = {};
  std::vector<Header> headers = {};
  std::string payload_sha256;  // 64 hexadecimal digits, or a word such as UNSIGNED-PAYLOAD
};

struct SigningScope {
  std::string time;  // 20130524T000000Z
  std::string region;
  std::string service;
};

struct Signature {
  std::string canonical_request;
  std::string string_to_sign;
  std::string signature;
  std::string authorization;  // the header's value
};

// Fails only where OpenSSL does.
Result<Signature> sign(const RequestToSign& request, const SigningScope& scope, const Credentials& credentials);

// The query as it stands in a URL, sorted as it is signed: "a=1&b=".
std::string query_text(std::vector<QueryItem> query);

// "e3b0c442...": of no bytes.
inline constexpr std::string_view kEmptySha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

}  // namespace ravnest::object_store
