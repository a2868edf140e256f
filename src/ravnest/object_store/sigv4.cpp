#include "ravnest/object_store/sigv4.h"

#include <algorithm>
#include <map>

#include "ravnest/identity/digest.h"
#include "ravnest/identity/sha256.h"

namespace ravnest::object_store {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
constexpr std::size_t kDateDigits = 8;

std::string lower(std::string_view name) {
  std::string written(name);
  std::ranges::transform(written, written.begin(),
                         [](char byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte; });
  return written;
}

// Without spaces at its ends, and with one where several stand together.
std::string trimmed(std::string_view value) {
  std::string written;
  for (const char byte : value) {
    const bool space = byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
    if (!space) {
      written += byte;
    } else if (!written.empty() && written.back() != ' ') {
      written += ' ';
    }
  }
  if (!written.empty() && written.back() == ' ') written.pop_back();
  return written;
}

// By name; values of one name in their order, with commas.
std::map<std::string, std::string> canonical_headers(const std::vector<Header>& headers) {
  std::map<std::string, std::string> by_name;
  for (const Header& header : headers) {
    const auto [at, is_new] = by_name.emplace(lower(header.name), trimmed(header.value));
    if (!is_new) at->second += "," + trimmed(header.value);
  }
  return by_name;
}

Result<std::string> signing_key(const SigningScope& scope, const Credentials& credentials) {
  Result<std::string> key = "AWS4" + credentials.secret_access_key;
  for (const std::string& part :
       {scope.time.substr(0, kDateDigits), scope.region, scope.service, std::string("aws4_request")}) {
    key = identity::hmac_sha256(*key, part);
    if (!key.ok()) return key;
  }
  return key;
}

}  // namespace

std::string query_text(std::vector<QueryItem> query) {
  std::sort(query.begin(), query.end());
  std::string written;
  for (const QueryItem& item : query) {
    if (!written.empty()) written += '&';
    written += item.name + "=" + item.value;
  }
  return written;
}

Result<Signature> sign(const RequestToSign& request, const SigningScope& scope, const Credentials& credentials) {
  Signature made;
  std::string names;
  made.canonical_request = text(request.method, "\n", request.path, "\n", query_text(request.query), "\n");
  for (const auto& [name, value] : canonical_headers(request.headers)) {
    made.canonical_request += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  made.canonical_request += text("\n", names, "\n", request.payload_sha256);

  const Result<std::string> digest = identity::sha256(as_byte_span(made.canonical_request));
  if (!digest.ok()) return digest.status();
  const std::string within =
      text(scope.time.substr(0, kDateDigits), "/", scope.region, "/", scope.service, "/aws4_request");
  made.string_to_sign = text(kAlgorithm, "\n", scope.time, "\n", within, "\n", *digest);

  const Result<std::string> key = signing_key(scope, credentials);
  if (!key.ok()) return key.status();
  const Result<std::string> signature = identity::hmac_sha256(*key, made.string_to_sign);
  if (!signature.ok()) return signature.status();
  made.signature = identity::to_hex(*signature);
  made.authorization = text(kAlgorithm, " Credential=", credentials.access_key_id, "/", within,
                            ", SignedHeaders=", names, ", Signature=", made.signature);
  return made;
}

}  // namespace ravnest::object_store
