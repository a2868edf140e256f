#include "ravnest/identity/sha256.h"

#include <array>

#include "ravnest/identity/openssl.h"

namespace ravnest::identity {
namespace {

std::string hexadecimal(const unsigned char* digest, unsigned int size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

Status digest_failure() { return openssl_failure(Code::kInternal, "compute a SHA-256"); }

}  // namespace

Result<std::string> sha256(ByteSpan bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) return digest_failure();
  return hexadecimal(digest.data(), size);
}

struct Sha256::Context {
  std::unique_ptr<EVP_MD_CTX, FreeWith<EVP_MD_CTX_free>> digest{EVP_MD_CTX_new()};
  Status failure;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (context_->digest == nullptr || EVP_DigestInit_ex(context_->digest.get(), EVP_sha256(), nullptr) != 1)
    context_->failure = digest_failure();
}

Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::add(ByteSpan bytes) {
  if (!context_->failure.ok()) return;
  if (EVP_DigestUpdate(context_->digest.get(), bytes.data(), bytes.size()) != 1) context_->failure = digest_failure();
}

Result<std::string> Sha256::digits() {
  if (!context_->failure.ok()) return context_->failure;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_DigestFinal_ex(context_->digest.get(), digest.data(), &size) != 1) return digest_failure();
  return hexadecimal(digest.data(), size);
}

}  // namespace ravnest::identity
