#include "ravnest/identity/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "ravnest/base/testing/folders.h"
#include "ravnest/identity/openssl.h"

namespace ravnest::identity {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const WallTime kNow = std::chrono::system_clock::from_time_t(1'800'000'000);
constexpr auto kDay = std::chrono::hours(24);

class IdentityTest : public ::testing::Test {
 protected:
  Status check(const Identity& identity, std::string_view name, WallTime now = kNow) const {
    return check_identity(identity, authority_.certificate(), name, now);
  }

  Authority authority_ = Authority::create("a1b2", kNow).value();
  Identity node_ = authority_.issue("node_3").value();
};

// What OpenSSL itself says; X509_V_OK is 0.
int verified(const Certificate& leaf, X509* untrusted, const Certificate& root, unsigned long flags) {
  const std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
  const auto free_stack = [](STACK_OF(X509) * stack) { sk_X509_free(stack); };
  const std::unique_ptr<STACK_OF(X509), decltype(free_stack)> between(sk_X509_new_null(), free_stack);
  if (untrusted != nullptr) sk_X509_push(between.get(), untrusted);
  X509_STORE_add_cert(store.get(), root.get());
  X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), between.get());
  X509_STORE_CTX_set_flags(context.get(), flags);
  X509_STORE_CTX_set_time(context.get(), 0, std::chrono::system_clock::to_time_t(kNow));
  const bool good = X509_verify_cert(context.get()) == 1;
  return good ? X509_V_OK : X509_STORE_CTX_get_error(context.get());
}

std::string one_line(const X509_NAME* name) {
  const Bio out(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_RFC2253);
  const char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

TEST_F(IdentityTest, OpensslVerifiesANodeUnderItsStrictestRules) {
  const auto leaf = certificate_from_pem(node_.certificate);
  const auto root = certificate_from_pem(authority_.certificate());
  ASSERT_TRUE(leaf.ok() && root.ok());
  EXPECT_EQ(verified(*leaf, nullptr, *root, X509_V_FLAG_X509_STRICT), X509_V_OK);
  EXPECT_EQ(one_line(X509_get_subject_name(root->get())), "CN=ravnest plan a1b2");
  EXPECT_EQ(one_line(X509_get_subject_name(leaf->get())), "CN=node_3,O=ravnest plan a1b2");
}

TEST_F(IdentityTest, CertificatesSayWhatTheyMayBeUsedFor) {
  const auto leaf = certificate_from_pem(node_.certificate);
  const auto root = certificate_from_pem(authority_.certificate());
  ASSERT_TRUE(leaf.ok() && root.ok());
  EXPECT_EQ(X509_get_version(leaf->get()), 2);
  EXPECT_EQ(X509_check_ca(root->get()), 1);
  EXPECT_EQ(X509_get_pathlen(root->get()), 0);
  EXPECT_EQ(X509_get_key_usage(root->get()), static_cast<unsigned>(KU_KEY_CERT_SIGN | KU_CRL_SIGN));
  EXPECT_EQ(X509_check_ca(leaf->get()), 0);
  EXPECT_EQ(X509_get_key_usage(leaf->get()), static_cast<unsigned>(KU_DIGITAL_SIGNATURE));
  EXPECT_EQ(X509_get_extended_key_usage(leaf->get()), static_cast<unsigned>(XKU_SSL_SERVER | XKU_SSL_CLIENT));
  for (const X509* each : {leaf->get(), root->get()}) {
    for (const int critical : {NID_basic_constraints, NID_key_usage}) {
      const X509_EXTENSION* extension = X509_get_ext(each, X509_get_ext_by_NID(each, critical, -1));
      ASSERT_NE(extension, nullptr);
      EXPECT_EQ(X509_EXTENSION_get_critical(extension), 1);
    }
  }
}

TEST_F(IdentityTest, SerialsArePositiveAndNoTwoAreTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 8; ++i) {
    const auto issued = certificate_from_pem(authority_.issue("node_3").value().certificate);
    const ASN1_INTEGER* serial = X509_get0_serialNumber(issued->get());
    EXPECT_EQ(ASN1_STRING_type(serial), V_ASN1_INTEGER);  // a negative one has a type of its own
    EXPECT_GE(ASN1_STRING_length(serial), 12);
    seen.emplace(reinterpret_cast<const char*>(ASN1_STRING_get0_data(serial)), ASN1_STRING_length(serial));
  }
  EXPECT_EQ(seen.size(), 8U);
}

TEST_F(IdentityTest, IssuedIdentityPassesTheCheckForItsOwnNameOnly) {
  EXPECT_EQ(check(node_, "node_3"), Status());
  for (const char* other : {"node_4", "node_33", "node_", "ravnest plan a1b2", ""}) {
    const Status status = check(node_, other);
    EXPECT_EQ(status.code(), Code::kInvalid) << other;
    EXPECT_THAT(status.message(), HasSubstr("another node"));
  }
}

TEST_F(IdentityTest, ClockADayBehindIsFineAndTwoDaysAreNot) {
  EXPECT_EQ(check(node_, "node_3", kNow - kDay + std::chrono::minutes(1)), Status());
  const Status early = check(node_, "node_3", kNow - 2 * kDay);
  EXPECT_EQ(early.code(), Code::kInvalid);
  EXPECT_THAT(early.message(), HasSubstr("set this machine's clock"));
}

TEST_F(IdentityTest, AfterFiveYearsItHasRunOut) {
  EXPECT_EQ(check(node_, "node_3", kNow + 5 * 365 * kDay - 2 * kDay), Status());
  const Status late = check(node_, "node_3", kNow + 5 * 365 * kDay);
  EXPECT_EQ(late.code(), Code::kInvalid);
  EXPECT_THAT(late.message(), HasSubstr("ran out on"));
  EXPECT_THAT(late.message(), HasSubstr("make the plan anew"));
}

TEST_F(IdentityTest, AnotherAuthorityIsRefusedEvenWithTheSamePlanId) {
  for (const char* id : {"a1b2", "other"}) {
    const Authority other = Authority::create(id, kNow).value();
    const Status status = check_identity(node_, other.certificate(), "node_3", kNow);
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_THAT(status.message(), HasSubstr("was not signed by the authority"));
  }
}

TEST_F(IdentityTest, NodeCannotVouchForAnother) {
  const auto node_certificate = certificate_from_pem(node_.certificate);
  const auto node_key = key_from_pem(node_.key);
  const auto root = certificate_from_pem(authority_.certificate());
  auto forged = certificate_from_pem(authority_.issue("node_4").value().certificate);
  ASSERT_TRUE(node_certificate.ok() && node_key.ok() && root.ok() && forged.ok());
  X509_set_issuer_name(forged->get(), X509_get_subject_name(node_certificate->get()));
  X509_EXTENSION_free(
      X509_delete_ext(forged->get(), X509_get_ext_by_NID(forged->get(), NID_authority_key_identifier, -1)));
  ASSERT_NE(X509_sign(forged->get(), node_key->get(), EVP_sha256()), 0);
  EXPECT_EQ(verified(*forged, node_certificate->get(), *root, 0), X509_V_ERR_INVALID_CA);

  const Identity forgery{to_pem(*forged).value(), authority_.issue("node_4").value().key};
  EXPECT_FALSE(check_identity(forgery, node_.certificate, "node_4", kNow).ok());
}

TEST_F(IdentityTest, NodesCertificateIsNoAuthority) {
  const Status status = check_identity(node_, node_.certificate, "node_3", kNow);
  EXPECT_EQ(status.code(), Code::kInvalid) << status;
}

TEST_F(IdentityTest, KeyOfAnotherCertificateIsRefused) {
  const Identity mixed{node_.certificate, authority_.issue("node_3").value().key};
  const Status status = check(mixed, "node_3");
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("does not belong to its certificate"));
}

TEST_F(IdentityTest, DamagedTextsAreNamed) {
  EXPECT_THAT(check({"", node_.key}, "node_3").message(), HasSubstr("identity.crt of node_3 is damaged"));
  EXPECT_THAT(check({node_.certificate, "x"}, "node_3").message(), HasSubstr("identity.key of node_3 is damaged"));
  EXPECT_THAT(check_identity(node_, "nothing", "node_3", kNow).message(),
              HasSubstr("identity.ca of node_3 is damaged"));
}

TEST_F(IdentityTest, SecondCertificateInOneTextIsRefused) {
  const Authority other = Authority::create("other", kNow).value();
  const Status status = check_identity(node_, authority_.certificate() + other.certificate(), "node_3", kNow);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("more than one"));
}

TEST_F(IdentityTest, EncryptedKeyIsRefusedWithoutAskingForAPassphrase) {
  const auto key = key_from_pem(node_.key);
  const Bio out(BIO_new(BIO_s_mem()));
  ASSERT_EQ(PEM_write_bio_PKCS8PrivateKey(out.get(), key->get(), EVP_aes_128_cbc(), "secret", 6, nullptr, nullptr), 1);
  const char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  EXPECT_EQ(check({node_.certificate, std::string(data, static_cast<std::size_t>(size))}, "node_3").code(),
            Code::kCorrupt);
}

TEST_F(IdentityTest, NamesThatCouldSayMoreThanANameAreRefused) {
  for (const std::string& bad : {std::string(), std::string("node_3,DNS:node_4"), std::string("a b"),
                                 std::string("node_3\0x", 8), std::string(64, 'n')}) {
    EXPECT_EQ(authority_.issue(bad).status().code(), Code::kInvalid) << bad;
  }
  EXPECT_EQ(Authority::create("").status().code(), Code::kInvalid);
  EXPECT_EQ(Authority::create(std::string(51, 'x')).status().code(), Code::kInvalid);
  EXPECT_TRUE(Authority::create(std::string(50, 'x')).ok());
  EXPECT_TRUE(authority_.issue(std::string(63, 'n')).ok());
}

TEST_F(IdentityTest, WhatIsWrittenReadsBackAndOnlyTheKeyIsPrivate) {
  const test::TemporaryFolder folder;
  const mode_t old = ::umask(0);
  const Status written = write_identity(folder.path(), node_, authority_.certificate());
  ::umask(old);
  ASSERT_EQ(written, Status());
  EXPECT_EQ(test::mode_of(folder.path() / "identity.key"), 0600U);
  EXPECT_EQ(test::mode_of(folder.path() / "identity.crt"), 0666U);
  const auto stored = read_identity(folder.path());
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(check_identity(stored->identity, stored->authority_certificate, "node_3", kNow), Status());
  EXPECT_EQ(test::names_in(folder.path()), (std::set<std::string>{"identity.ca", "identity.crt", "identity.key"}));
}

TEST_F(IdentityTest, MissingFileIsNamed) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(write_identity(folder.path(), node_, authority_.certificate()), Status());
  fs::remove(folder.path() / "identity.ca");
  const Status status = read_identity(folder.path()).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("identity.ca"));
}

}  // namespace
}  // namespace ravnest::identity
