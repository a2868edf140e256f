#include "ravnest/identity/sha256.h"

#include <array>

#include "ravnest/identity/openssl.h"

namespace ravnest::identity {

Result<std::string> sha256(ByteSpan bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    return openssl_failure(Code::kInternal, "compute a SHA-256");
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

}  // namespace ravnest::identity
