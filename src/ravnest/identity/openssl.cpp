#include "ravnest/identity/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>
#include <limits>

namespace ravnest::identity {
namespace {

Bio reader_of(const std::string& pem) {
  if (pem.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return nullptr;
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

std::string content(const Bio& bio) {
  const char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

// OpenSSL would ask on the terminal.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*context*/) { return -1; }

}  // namespace

Status openssl_failure(Code code, std::string_view action) {
  const unsigned long error = ERR_get_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  ERR_clear_error();
  return {code, text("cannot ", action, ": ", reason != nullptr ? reason : "OpenSSL gave no reason")};
}

Result<std::string> to_pem(const Key& key) {
  const Bio out(BIO_new(BIO_s_mem()));
  if (out == nullptr || PEM_write_bio_PrivateKey(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return openssl_failure(Code::kInternal, "write a key as PEM");
  return content(out);
}

Result<std::string> to_pem(const Certificate& certificate) {
  const Bio out(BIO_new(BIO_s_mem()));
  if (out == nullptr || PEM_write_bio_X509(out.get(), certificate.get()) != 1)
    return openssl_failure(Code::kInternal, "write a certificate as PEM");
  return content(out);
}

Result<Key> key_from_pem(const std::string& pem) {
  const Bio in = reader_of(pem);
  Key key(in == nullptr ? nullptr : PEM_read_bio_PrivateKey(in.get(), nullptr, no_passphrase, nullptr));
  if (key == nullptr) return openssl_failure(Code::kCorrupt, "read a key from PEM");
  return key;
}

Result<Certificate> certificate_from_pem(const std::string& pem) {
  const Bio in = reader_of(pem);
  Certificate first(in == nullptr ? nullptr : PEM_read_bio_X509(in.get(), nullptr, no_passphrase, nullptr));
  if (first == nullptr) return openssl_failure(Code::kCorrupt, "read a certificate from PEM");
  const Certificate second(PEM_read_bio_X509(in.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();  // that there is no second one is noted as an error
  if (second != nullptr) return corrupt("cannot read a certificate from PEM: there is more than one");
  return first;
}

std::string common_name(const X509_NAME* name) {
  std::array<char, 128> written{};
  const int size = X509_NAME_get_text_by_NID(name, NID_commonName, written.data(), static_cast<int>(written.size()));
  return size < 0 ? "" : std::string(written.data(), static_cast<std::size_t>(size));
}

std::string shown(const ASN1_TIME* time) {
  const Bio out(BIO_new(BIO_s_mem()));
  if (out == nullptr || time == nullptr || ASN1_TIME_print(out.get(), time) != 1) return "a time that cannot be read";
  const char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace ravnest::identity
