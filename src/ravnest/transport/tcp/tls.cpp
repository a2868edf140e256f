#include "ravnest/transport/tcp/tls.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace ravnest::transport::tcp {
namespace {

constexpr std::size_t kReadAhead = 256 << 10;

// What was wrong with the other side's certificate, as seen here.
TlsFailure certificate_failure(long error) {
  const auto refused = [](const auto&... words) { return TlsFailure{TlsTrouble::kCertificate, invalid(words...)}; };
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return refused("its certificate has expired: make the plan anew, or set this machine's clock if it is wrong");
    case X509_V_ERR_CERT_NOT_YET_VALID: return refused("its certificate is not valid yet: set this machine's clock");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return {TlsTrouble::kOtherPlan,
              invalid("its certificate is of another plan: unpack the same plan's packages on both machines")};
    default:
      return refused("its certificate is refused (", X509_verify_cert_error_string(error),
                     "): unpack the same plan's packages on both machines");
  }
}

// What the other side said, or what it is that does not speak TLS.
TlsFailure protocol_failure(unsigned long error) {
  const auto certificate = [](const auto&... words) { return TlsFailure{TlsTrouble::kCertificate, invalid(words...)}; };
  switch (ERR_GET_REASON(error)) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      return certificate(
          "it does not accept this node's certificate, which is of another plan than its own: unpack the same "
          "plan's packages on both machines");
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return certificate(
          "by its clock this node's certificate is out of its time: set the clocks of both machines, or make "
          "the plan anew");
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return certificate("no certificate was shown: not a node of a plan");
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_UNKNOWN_PROTOCOL:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      return {TlsTrouble::kNotTls,
              invalid("what is there does not speak TLS 1.3: another program, or a node that was started insecure")};
    default: {
      std::array<char, 256> words{};
      ERR_error_string_n(error, words.data(), words.size());
      return {TlsTrouble::kConnection, unavailable("TLS failed: ", words.data())};
    }
  }
}

}  // namespace

Result<TlsContext> TlsContext::create(const identity::StoredIdentity& identity) {
  auto certificate = identity::certificate_from_pem(identity.identity.certificate);
  if (!certificate.ok()) return certificate.status();
  auto key = identity::key_from_pem(identity.identity.key);
  if (!key.ok()) return key.status();
  auto authority = identity::certificate_from_pem(identity.authority_certificate);
  if (!authority.ok()) return authority.status();

  // OpenSSL unpacks a certificate when it first looks into it: do it now, before threads share it.
  (void)X509_check_purpose(authority->get(), -1, 0);
  (void)X509_check_purpose(certificate->get(), -1, 0);
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  const bool set =
      context != nullptr && SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
      SSL_CTX_use_certificate(context.get(), certificate->get()) == 1 &&
      SSL_CTX_use_PrivateKey(context.get(), key->get()) == 1 && SSL_CTX_check_private_key(context.get()) == 1 &&
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority->get()) == 1;
  if (!set) return identity::openssl_failure(Code::kCorrupt, "use this node's certificate and key");
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Connections are few and long: nothing to resume.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // Many records per call of the system.
  SSL_CTX_set_read_ahead(context.get(), 1);
  SSL_CTX_set_default_read_buffer_len(context.get(), kReadAhead);
  return TlsContext(std::move(context));
}

std::string certified_name(SSL* session) {
  const identity::Certificate certificate(SSL_get1_peer_certificate(session));
  if (certificate == nullptr) return "";
  return identity::common_name(X509_get_subject_name(certificate.get()));
}

ShownCertificate shown_certificate(SSL* session) {
  const identity::Certificate certificate(SSL_get1_peer_certificate(session));
  if (certificate == nullptr) return {};
  return {identity::common_name(X509_get_subject_name(certificate.get())),
          identity::common_name(X509_get_issuer_name(certificate.get())),
          identity::shown(X509_get0_notAfter(certificate.get()))};
}

TlsFailure tls_failure(SSL* session) {
  const int system_error = errno;
  const unsigned long error = ERR_peek_error();
  ERR_clear_error();
  if (ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED)
    return certificate_failure(SSL_get_verify_result(session));
  const bool ended = ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  if (error != 0 && !ended) return protocol_failure(error);
  if (!ended && system_error != 0)
    return {TlsTrouble::kConnection, unavailable(std::generic_category().message(system_error))};
  return {TlsTrouble::kConnection, unavailable("it closed the connection")};
}

}  // namespace ravnest::transport::tcp
