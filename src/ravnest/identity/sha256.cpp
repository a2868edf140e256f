#include "ravnest/identity/sha256.h"

#include <optional>
#include <utility>

#include "ravnest/identity/digest.h"

namespace ravnest::identity {

Result<std::string> sha256(ByteSpan bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.digits();
}

struct Sha256::Context {
  std::optional<Digest> digest;
  Status failure;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (auto digest = Digest::sha256(); digest.ok())
    context_->digest.emplace(std::move(*digest));
  else
    context_->failure = digest.status();
}

Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::add(ByteSpan bytes) {
  if (context_->failure.ok()) context_->failure = context_->digest->add(bytes);
}

Result<std::string> Sha256::digits() {
  if (!context_->failure.ok()) return context_->failure;
  auto digest = context_->digest->finish();
  if (!digest.ok()) return digest.status();
  return to_hex(*digest);
}

}  // namespace ravnest::identity
