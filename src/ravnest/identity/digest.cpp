#include "ravnest/identity/digest.h"

#include <openssl/hmac.h>

#include <array>

namespace ravnest::identity {

Result<Digest> Digest::make(const EVP_MD* kind) {
  Context context(EVP_MD_CTX_new());
  if (context == nullptr || EVP_DigestInit_ex(context.get(), kind, nullptr) != 1)
    return openssl_failure(Code::kUnsupported, "begin a digest");
  return Digest(std::move(context));
}

Status Digest::add(ByteSpan bytes) {
  if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1)
    return openssl_failure(Code::kInternal, "compute a digest");
  return {};
}

Result<std::string> Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_DigestFinal_ex(context_.get(), digest.data(), &size) != 1)
    return openssl_failure(Code::kInternal, "compute a digest");
  return std::string(reinterpret_cast<const char*>(digest.data()), size);
}

Result<std::string> hmac_sha256(std::string_view key, std::string_view message) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), code.data(), &size) == nullptr)
    return openssl_failure(Code::kInternal, "compute an HMAC");
  return std::string(reinterpret_cast<const char*>(code.data()), size);
}

Result<std::string> md5(ByteSpan bytes) {
  auto digest = Digest::md5();
  if (!digest.ok()) return digest.status();
  if (Status added = digest->add(bytes); !added.ok()) return added;
  return digest->finish();
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    hex += kDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return hex;
}

std::string to_base64(std::string_view bytes) {
  std::string written(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(written.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  written.resize(static_cast<std::size_t>(size));
  return written;
}

}  // namespace ravnest::identity
