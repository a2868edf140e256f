// Mutual TLS between the nodes of a plan.
//
// TLS 1.3 alone. Each side shows its certificate and accepts only one that the plan's authority signed; who may talk to
// whom is then up to the caller, by the name in the certificate. Failures are sentences for people: OpenSSL's own words
// are added only where there is no better one.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "ravnest/base/status.h"
#include "ravnest/identity/identity.h"
#include "ravnest/identity/openssl.h"

namespace ravnest::transport::tcp {

// What a node shows and trusts. A plain value that can be shared by threads.
class TlsContext {
 public:
  // kCorrupt where the texts are no certificate and key, or do not belong together.
  static Result<TlsContext> create(const identity::StoredIdentity& identity);

  SSL_CTX* handle() const { return context_.get(); }

 private:
  explicit TlsContext(std::shared_ptr<SSL_CTX> context) : context_(std::move(context)) {}

  std::shared_ptr<SSL_CTX> context_;
};

using TlsSession = std::unique_ptr<SSL, identity::FreeWith<SSL_free>>;

// The name in the certificate that the other side showed; empty where there is none.
std::string certified_name(SSL* session);

// What the other side's certificate says; all empty where there is none.
struct ShownCertificate {
  std::string name;         // the node's
  std::string issuer;       // "ravnest plan ID"
  std::string valid_until;  // as people write it, in GMT
};
ShownCertificate shown_certificate(SSL* session);

enum class TlsTrouble : unsigned char {
  kNone,
  kCertificate,  // one of the two sides does not accept the other's
  kOtherPlan,    // the same: here, since it is of another plan
  kNotTls,       // what came is not TLS 1.3
  kConnection,   // it ended or failed, for a reason that is not TLS's own
};
struct TlsFailure {
  TlsTrouble trouble = TlsTrouble::kNone;
  Status status;  // kInvalid where trying again will not help
};

// Why OpenSSL's last call on the session failed.
TlsFailure tls_failure(SSL* session);

}  // namespace ravnest::transport::tcp
