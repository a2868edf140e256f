#include "ravnest/identity/identity.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"
#include "ravnest/identity/openssl.h"

namespace ravnest::identity {
namespace {

namespace fs = std::filesystem;

using Store = std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>>;

constexpr std::string_view kAgain = "pack this node again from the plan and unpack the new package here";

bool bears_name(const Certificate& certificate, std::string_view name) {
  constexpr unsigned kExactly = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS;
  return !name.empty() && X509_check_host(certificate.get(), name.data(), name.size(), kExactly, nullptr) == 1;
}

Status explain(int error, const Certificate& certificate, std::string_view node) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return invalid("the certificate of ", node, " ran out on ", shown(X509_get0_notAfter(certificate.get())),
                     ": make the plan anew, or set this machine's clock if it is wrong");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return invalid("the certificate of ", node, " is valid only from ", shown(X509_get0_notBefore(certificate.get())),
                     " on: set this machine's clock");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return invalid("the certificate of ", node,
                     " was not signed by the authority that lies beside it; they are of two plans: ", kAgain);
    default:
      return invalid("the certificate of ", node, " is refused (", X509_verify_cert_error_string(error), "): ", kAgain);
  }
}

Status check_chain(const Certificate& certificate, const Certificate& authority, std::string_view node, WallTime now) {
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    const Store store(X509_STORE_new());
    const StoreContext context(X509_STORE_CTX_new());
    if (store == nullptr || context == nullptr || X509_STORE_add_cert(store.get(), authority.get()) != 1 ||
        X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr) != 1 ||
        X509_STORE_CTX_set_purpose(context.get(), purpose) != 1)
      return openssl_failure(Code::kInternal, text("check the certificate of ", node));
    X509_STORE_CTX_set_time(context.get(), 0, std::chrono::system_clock::to_time_t(now));
    if (X509_verify_cert(context.get()) != 1) {
      ERR_clear_error();
      return explain(X509_STORE_CTX_get_error(context.get()), certificate, node);
    }
  }
  return {};
}

}  // namespace

Status check_identity(const Identity& identity, const std::string& authority_certificate, std::string_view node_name,
                      WallTime now) {
  const std::string node = printable(node_name);
  const auto unreadable = [&](const Status& why, std::string_view file) {
    return corrupt(file, " of ", node, " is damaged (", why.message(), "): ", kAgain);
  };
  const Result<Certificate> certificate = certificate_from_pem(identity.certificate);
  if (!certificate.ok()) return unreadable(certificate.status(), kCertificateFile);
  const Result<Key> key = key_from_pem(identity.key);
  if (!key.ok()) return unreadable(key.status(), kKeyFile);
  const Result<Certificate> authority = certificate_from_pem(authority_certificate);
  if (!authority.ok()) return unreadable(authority.status(), kAuthorityFile);
  const bool belongs = X509_check_private_key(certificate->get(), key->get()) == 1;
  ERR_clear_error();
  if (!belongs) return corrupt("the key of ", node, " does not belong to its certificate: ", kAgain);
  if (!bears_name(*certificate, node_name))
    return invalid("the certificate is not of ", node, " but of another node: each node needs its own package; ",
                   kAgain);
  return check_chain(*certificate, *authority, node, now);
}

Result<std::string> certificate_subject(const std::string& certificate) {
  const Result<Certificate> read = certificate_from_pem(certificate);
  if (!read.ok()) return read.status();
  return common_name(X509_get_subject_name(read->get()));
}

Status write_identity(const fs::path& folder, const Identity& identity, std::string_view authority_certificate) {
  if (Status status = write_file_atomically(folder / kCertificateFile, identity.certificate); !status.ok())
    return status;
  if (Status status = write_file_atomically(folder / kKeyFile, identity.key, kPrivateMode); !status.ok()) return status;
  return write_file_atomically(folder / kAuthorityFile, authority_certificate);
}

Result<StoredIdentity> read_identity(const fs::path& folder) {
  StoredIdentity stored;
  const std::pair<std::string_view, std::string*> files[] = {{kCertificateFile, &stored.identity.certificate},
                                                             {kKeyFile, &stored.identity.key},
                                                             {kAuthorityFile, &stored.authority_certificate}};
  for (const auto& [name, content] : files) {
    Result<std::string> read = read_file(folder / name);
    if (!read.ok()) return read.status();
    *content = std::move(*read);
  }
  return stored;
}

}  // namespace ravnest::identity
