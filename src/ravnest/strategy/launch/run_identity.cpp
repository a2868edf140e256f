#include "ravnest/strategy/launch/run_identity.h"

#include "ravnest/identity/derive.h"
#include "ravnest/identity/sha256.h"
#include "ravnest/strategy/launch/rendezvous.h"

namespace ravnest::strategy {
namespace {

constexpr std::size_t kNameDigits = 32;

// A name that is plain enough for certificates and says nothing about what it was made of.
Result<std::string> name_of(ByteSpan bytes) {
  auto digest = identity::sha256(bytes);
  if (!digest.ok()) return digest.status();
  return text("run-", digest->substr(0, kNameDigits));
}

Result<std::string> derived_name(const RunToken& token, const std::string& purpose) {
  constexpr std::size_t kBytes = 32;
  const auto derived = identity::derive_bytes(token.secret(), purpose, kBytes);
  if (!derived.ok()) return derived.status();
  return name_of(std::as_bytes(std::span(*derived)));
}

}  // namespace

Result<identity::StoredIdentity> run_identity(const RunToken& token, int rank, identity::WallTime now) {
  const auto name = derived_name(token, "name of the authority");
  if (!name.ok()) return name.status();
  const auto authority = identity::Authority::derive(token.secret(), *name, now);
  if (!authority.ok()) return authority.status();
  auto own = authority->issue(rank_name(rank));
  if (!own.ok()) return own.status();
  return identity::StoredIdentity{*std::move(own), authority->certificate()};
}

Result<std::string> run_plan(const std::optional<RunToken>& token, const std::string& run_id) {
  return token ? derived_name(*token, text("run ", run_id)) : name_of(as_byte_span(run_id));
}

}  // namespace ravnest::strategy
