#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "ravnest/base/printable.h"
#include "ravnest/identity/derive.h"
#include "ravnest/identity/identity.h"
#include "ravnest/identity/openssl.h"

namespace ravnest::identity {
namespace {

constexpr std::size_t kLongestPlanId = 50;  // with "ravnest plan " before it, within the 64 that X.509 gives a name
constexpr std::size_t kLongestNodeName = 63;
constexpr auto kBefore = std::chrono::hours(24);
constexpr auto kLifetime = std::chrono::hours(24) * 365 * 5;
constexpr int kSerialBits = 128;
constexpr long kX509Version3 = 2;

using Number = std::unique_ptr<BIGNUM, FreeWith<BN_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>>;

// Also what keeps a name from bringing extensions of its own: OpenSSL reads those from texts with commas and colons.
bool is_plain_name(std::string_view name, std::size_t longest) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= longest && std::all_of(name.begin(), name.end(), is_plain);
}

struct Subject {
  std::string common_name;
  std::string organisation;  // none where empty
};

struct ExtensionText {
  int kind = 0;
  std::string text;
};

bool add_part(X509_NAME* name, const char* field, const std::string& value) {
  return value.empty() ||
         X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool set_serial(X509* certificate) {
  const Number number(BN_new());
  return number != nullptr && BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

struct Validity {
  std::time_t from = 0;
  std::time_t until = 0;
};

Validity validity_at(WallTime now) {
  using std::chrono::system_clock;
  return {system_clock::to_time_t(now - kBefore), system_clock::to_time_t(now - kBefore + kLifetime)};
}

// From 1970 to the last second that a certificate can name, which stands for "no end" (RFC 5280, 4.1.2.5).
constexpr Validity kAlways = {0, 253402300799};

bool set_times(X509* certificate, const Validity& validity) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate), validity.from) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), validity.until) != nullptr;
}

bool add_extensions(X509* certificate, X509* issuer, const std::vector<ExtensionText>& texts) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  return std::all_of(texts.begin(), texts.end(), [&](const ExtensionText& each) {
    const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, each.kind, each.text.c_str()));
    return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
  });
}

// A certificate for `key`, signed by the issuer's; an issuer of null is the certificate itself.
Result<Certificate> signed_certificate(const Subject& subject, const Validity& validity, const Key& key, X509* issuer,
                                       EVP_PKEY* issuer_key, const std::vector<ExtensionText>& extensions) {
  Certificate made(X509_new());
  if (made == nullptr) return openssl_failure(Code::kInternal, "make a certificate");
  if (issuer == nullptr) issuer = made.get();
  X509_NAME* name = X509_get_subject_name(made.get());
  const bool complete = X509_set_version(made.get(), kX509Version3) == 1 && set_serial(made.get()) &&
                        set_times(made.get(), validity) && add_part(name, "O", subject.organisation) &&
                        add_part(name, "CN", subject.common_name) &&
                        X509_set_issuer_name(made.get(), X509_get_subject_name(issuer)) == 1 &&
                        X509_set_pubkey(made.get(), key.get()) == 1 && add_extensions(made.get(), issuer, extensions) &&
                        X509_sign(made.get(), issuer_key, EVP_sha256()) != 0;
  if (!complete) return openssl_failure(Code::kInternal, text("make a certificate for ", subject.common_name));
  return made;
}

Result<Identity> as_pem(const Key& key, const Result<Certificate>& certificate) {
  if (!certificate.ok()) return certificate.status();
  const Result<std::string> first = to_pem(*certificate);
  if (!first.ok()) return first.status();
  const Result<std::string> second = to_pem(key);
  if (!second.ok()) return second.status();
  return Identity{*first, *second};
}

Result<Identity> authority_of(const std::string& title, const Validity& validity, const Key& key) {
  return as_pem(key, signed_certificate({title, ""}, validity, key, nullptr, key.get(),
                                        {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                         {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                         {NID_subject_key_identifier, "hash"}}));
}

}  // namespace

Result<std::string> Authority::title_of(std::string_view plan_id) {
  if (!is_plain_name(plan_id, kLongestPlanId))
    return invalid("\"", printable(plan_id), "\" cannot be the id of a plan: it needs 1 to ", kLongestPlanId,
                   " letters, digits, '.', '_' and '-'");
  return text("ravnest plan ", plan_id);
}

Result<Authority> Authority::create(std::string_view plan_id, WallTime now) {
  auto title = title_of(plan_id);
  if (!title.ok()) return title.status();
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return openssl_failure(Code::kInternal, "make the authority's key");
  Authority authority(*std::move(title), now);
  Result<Identity> own = authority_of(authority.title_, validity_at(now), key);
  if (!own.ok()) return own.status();
  authority.own_ = *std::move(own);
  return authority;
}

Result<Authority> Authority::derive(ByteSpan secret, std::string_view plan_id, WallTime now) {
  auto title = title_of(plan_id);
  if (!title.ok()) return title.status();
  const Result<Key> key = derive_key(secret, "certificate authority");
  if (!key.ok()) return key.status();
  Authority authority(*std::move(title), now);
  Result<Identity> own = authority_of(authority.title_, kAlways, *key);
  if (!own.ok()) return own.status();
  authority.own_ = *std::move(own);
  return authority;
}

Result<Identity> Authority::issue(std::string_view node_name) const {
  if (!is_plain_name(node_name, kLongestNodeName))
    return invalid("\"", printable(node_name), "\" cannot be the name of a node: it needs 1 to ", kLongestNodeName,
                   " letters, digits, '.', '_' and '-'");
  const Result<Certificate> issuer = certificate_from_pem(own_.certificate);
  if (!issuer.ok()) return issuer.status();
  const Result<Key> issuer_key = key_from_pem(own_.key);
  if (!issuer_key.ok()) return issuer_key.status();
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return openssl_failure(Code::kInternal, text("make a key for ", node_name));
  return as_pem(key, signed_certificate({std::string(node_name), title_}, validity_at(now_), key, issuer->get(),
                                        issuer_key->get(),
                                        {{NID_basic_constraints, "critical,CA:FALSE"},
                                         {NID_key_usage, "critical,digitalSignature"},
                                         {NID_ext_key_usage, "serverAuth,clientAuth"},
                                         {NID_subject_alt_name, text("DNS:", node_name)},
                                         {NID_subject_key_identifier, "hash"},
                                         {NID_authority_key_identifier, "keyid:always"}}));
}

}  // namespace ravnest::identity
