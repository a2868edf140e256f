#include "ravnest/identity/derive.h"

#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>

#include <string>

#include "ravnest/identity/identity.h"

namespace ravnest::identity {
namespace {

const ByteSpan kSecret = as_byte_span("a secret");

std::string hex(const std::vector<unsigned char>& bytes) {
  std::string digits;
  for (const unsigned char byte : bytes) {
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

std::string number_of(const Key& key, const char* part) {
  BIGNUM* number = nullptr;
  EXPECT_EQ(EVP_PKEY_get_bn_param(key.get(), part, &number), 1);
  const std::unique_ptr<BIGNUM, FreeWith<BN_free>> owner(number);
  std::vector<unsigned char> bytes(32);
  EXPECT_EQ(BN_bn2binpad(number, bytes.data(), 32), 32);
  return hex(bytes);
}

// Worked out by another program: ranks of different releases have to come to the same.
TEST(Derive, TheBytesOfASecretAndAPurposeAreThese) {
  EXPECT_EQ(hex(*derive_bytes(kSecret, "a purpose", 20)), "3171d109e12d2d9f84f8dce56940632dc72a0645");
  EXPECT_NE(hex(*derive_bytes(kSecret, "another purpose", 20)), hex(*derive_bytes(kSecret, "a purpose", 20)));
  EXPECT_NE(hex(*derive_bytes(as_byte_span("another"), "a purpose", 20)), hex(*derive_bytes(kSecret, "a purpose", 20)));
}

TEST(Derive, TheKeyOfASecretIsThisOne) {
  const auto key = derive_key(kSecret, "a purpose");
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(number_of(*key, OSSL_PKEY_PARAM_PRIV_KEY),
            "2ac109a3993c5a81f9bae8dfe353d2f3e89dd2c9a7588645c803e77572bbe6a6");
  EXPECT_EQ(number_of(*key, OSSL_PKEY_PARAM_EC_PUB_X),
            "5c3599f6d24f5f5851934e2797428d798a06d41103c4cd7dd9f6afde5d5882e4");
  EXPECT_EQ(number_of(*key, OSSL_PKEY_PARAM_EC_PUB_Y),
            "f9e656dc05a6bef5553d2387ae512769c135de1a7abab181eec331bc12120a92");
}

constexpr auto kYear = std::chrono::hours(24 * 365);

TEST(DerivedAuthority, EachAcceptsWhatTheOthersIssue) {
  const WallTime now = std::chrono::system_clock::now();
  // The clock of the second is slow.
  const auto one = Authority::derive(kSecret, "run-1", now);
  const auto other = Authority::derive(kSecret, "run-1", now - std::chrono::hours(20));
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->key(), other->key());
  for (const Authority* issuer : {&*one, &*other}) {
    const auto issued = issuer->issue("rank_1");
    ASSERT_TRUE(issued.ok()) << issued.status();
    for (const Authority* verifier : {&*one, &*other}) {
      const Status sound = check_identity(*issued, verifier->certificate(), "rank_1", now);
      EXPECT_TRUE(sound.ok()) << sound;
    }
  }
}

TEST(DerivedAuthority, ItNeverRunsOut) {
  const WallTime far = std::chrono::system_clock::now() + 90 * kYear;
  const auto now = Authority::derive(kSecret, "run-1");
  const auto then = Authority::derive(kSecret, "run-1", far);
  EXPECT_TRUE(check_identity(*then->issue("rank_1"), now->certificate(), "rank_1", far).ok());
}

TEST(DerivedAuthority, ThatOfAnotherSecretIsAnotherOne) {
  const auto one = Authority::derive(kSecret, "run-1");
  const auto other = Authority::derive(as_byte_span("another secret"), "run-1");
  const Status refused =
      check_identity(*other->issue("rank_1"), one->certificate(), "rank_1", std::chrono::system_clock::now());
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_EQ(Authority::derive(kSecret, "a b").status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace ravnest::identity
