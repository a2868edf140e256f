// OpenSSL's handles with owners, its failures as Status, and PEM texts in and out of it.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::identity {

template <auto free>
struct FreeWith {
  template <class T>
  void operator()(T* handle) const {
    free(handle);
  }
};

using Bio = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeWith<X509_free>>;

// "cannot ACTION: REASON", the reason being the first that OpenSSL noted in this thread; its list is empty afterwards.
Status openssl_failure(Code code, std::string_view action);

Result<std::string> to_pem(const Key& key);
Result<std::string> to_pem(const Certificate& certificate);

// kCorrupt unless the text holds one key, not encrypted. Never asks anybody for a passphrase.
Result<Key> key_from_pem(const std::string& pem);
// kCorrupt unless the text holds exactly one certificate: a second one would be trusted or sent along unseen.
Result<Certificate> certificate_from_pem(const std::string& pem);

// The name by which the certificate's owner or issuer is called; empty where there is none.
std::string common_name(const X509_NAME* name);

// A time as people write it, in GMT.
std::string shown(const ASN1_TIME* time);

}  // namespace ravnest::identity
