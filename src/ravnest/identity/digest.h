// Digests of bytes that come piece by piece, and SHA-256 with a key (HMAC, RFC 2104).
//
// sha256.h is the short way to SHA-256 as digits. Values: one owner each, no state in the process.
#pragma once

#include <openssl/evp.h>

#include <string>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"
#include "ravnest/identity/openssl.h"

namespace ravnest::identity {

class Digest {
 public:
  static Result<Digest> sha256() { return make(EVP_sha256()); }
  // Says what S3 calls an ETag and a Content-MD5; protects against nobody. kUnsupported where this OpenSSL refuses it.
  static Result<Digest> md5() { return make(EVP_md5()); }

  Status add(ByteSpan bytes);
  // The digest itself, 32 or 16 bytes; to be called once.
  Result<std::string> finish();

 private:
  using Context = std::unique_ptr<EVP_MD_CTX, FreeWith<EVP_MD_CTX_free>>;
  explicit Digest(Context context) : context_(std::move(context)) {}
  static Result<Digest> make(const EVP_MD* kind);

  Context context_;
};

// 32 bytes. Safe from any thread, as are those below.
Result<std::string> hmac_sha256(std::string_view key, std::string_view message);

// The MD5 of bytes that are all there: 16 bytes.
Result<std::string> md5(ByteSpan bytes);

// Lower-case hexadecimal digits.
std::string to_hex(std::string_view bytes);
std::string to_base64(std::string_view bytes);

}  // namespace ravnest::identity
