#include "ravnest/identity/derive.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/kdf.h>
#include <openssl/obj_mac.h>
#include <openssl/param_build.h>

#include <array>
#include <string>

namespace ravnest::identity {
namespace {

// Changing it changes every key that was ever derived.
constexpr std::string_view kSalt = "ravnest, derived keys, 1";
// 128 bits more than the group's order has, so that the remainder is as good as uniform (FIPS 186-5, A.2.1).
constexpr std::size_t kScalarBytes = 48;
constexpr const char* kCurve = "P-256";

using Kdf = std::unique_ptr<EVP_KDF, FreeWith<EVP_KDF_free>>;
using KdfContext = std::unique_ptr<EVP_KDF_CTX, FreeWith<EVP_KDF_CTX_free>>;
using SecretNumber = std::unique_ptr<BIGNUM, FreeWith<BN_clear_free>>;
using NumberContext = std::unique_ptr<BN_CTX, FreeWith<BN_CTX_free>>;
using Group = std::unique_ptr<EC_GROUP, FreeWith<EC_GROUP_free>>;
using Point = std::unique_ptr<EC_POINT, FreeWith<EC_POINT_free>>;
using ParameterBuilder = std::unique_ptr<OSSL_PARAM_BLD, FreeWith<OSSL_PARAM_BLD_free>>;
using Parameters = std::unique_ptr<OSSL_PARAM, FreeWith<OSSL_PARAM_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, FreeWith<EVP_PKEY_CTX_free>>;

OSSL_PARAM octets(const char* name, ByteSpan bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<std::byte*>(bytes.data()), bytes.size());
}

// A number from 1 to the order less 1.
bool set_scalar(BIGNUM* scalar, const std::vector<unsigned char>& bytes, const EC_GROUP* group, BN_CTX* context) {
  const SecretNumber wide(BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  const SecretNumber most(BN_dup(EC_GROUP_get0_order(group)));
  return wide != nullptr && most != nullptr && BN_sub_word(most.get(), 1) == 1 &&
         BN_mod(scalar, wide.get(), most.get(), context) == 1 && BN_add_word(scalar, 1) == 1;
}

Key key_of(const BIGNUM* scalar, const EC_GROUP* group, BN_CTX* context) {
  const Point point(EC_POINT_new(group));
  std::array<unsigned char, 65> written{};  // 0x04, x, y
  if (point == nullptr || EC_POINT_mul(group, point.get(), scalar, nullptr, nullptr, context) != 1 ||
      EC_POINT_point2oct(group, point.get(), POINT_CONVERSION_UNCOMPRESSED, written.data(), written.size(), context) !=
          written.size())
    return nullptr;
  const ParameterBuilder builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, kCurve, 0) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_PRIV_KEY, scalar) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, written.data(), written.size()) != 1)
    return nullptr;
  const Parameters parameters(OSSL_PARAM_BLD_to_param(builder.get()));
  const KeyContext maker(EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* made = nullptr;
  if (parameters == nullptr || maker == nullptr || EVP_PKEY_fromdata_init(maker.get()) != 1 ||
      EVP_PKEY_fromdata(maker.get(), &made, EVP_PKEY_KEYPAIR, parameters.get()) != 1)
    return nullptr;
  return Key(made);
}

}  // namespace

Result<std::vector<unsigned char>> derive_bytes(ByteSpan secret, std::string_view purpose, std::size_t size) {
  const Kdf kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const KdfContext context(kdf == nullptr ? nullptr : EVP_KDF_CTX_new(kdf.get()));
  std::string digest = "SHA256";
  const std::array parameters = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
                                 octets(OSSL_KDF_PARAM_KEY, secret), octets(OSSL_KDF_PARAM_SALT, as_byte_span(kSalt)),
                                 octets(OSSL_KDF_PARAM_INFO, as_byte_span(purpose)), OSSL_PARAM_construct_end()};
  std::vector<unsigned char> derived(size);
  if (context == nullptr || EVP_KDF_derive(context.get(), derived.data(), derived.size(), parameters.data()) != 1)
    return openssl_failure(Code::kInternal, "derive a key");
  return derived;
}

Result<Key> derive_key(ByteSpan secret, std::string_view purpose) {
  const auto bytes = derive_bytes(secret, purpose, kScalarBytes);
  if (!bytes.ok()) return bytes.status();
  const Group group(EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  const NumberContext context(BN_CTX_new());
  const SecretNumber scalar(BN_new());
  if (group == nullptr || context == nullptr || scalar == nullptr ||
      !set_scalar(scalar.get(), *bytes, group.get(), context.get()))
    return openssl_failure(Code::kInternal, "derive a key");
  Key key = key_of(scalar.get(), group.get(), context.get());
  if (key == nullptr) return openssl_failure(Code::kInternal, "derive a key");
  return key;
}

}  // namespace ravnest::identity
