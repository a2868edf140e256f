// Who a node is: a certificate authority per plan, and one certificate and key per node.
//
// Nodes talk over mutual TLS. A plan brings its own small authority, so that nobody has to run one: each node's folder
// holds its certificate, its key and the authority's certificate, and each side of a connection checks that the other's
// certificate is of this plan and of the node that it expects. The names are the plan's: `node_3`.
// Keys are P-256; all texts are PEM. Nothing here keeps state in the process; safe from any thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::identity {

using WallTime = std::chrono::system_clock::time_point;

struct Identity {
  std::string certificate;
  std::string key;  // unencrypted: keep it private
};

// Signs the certificates of one plan's nodes. Whoever has its key can join the plan under any name, so the key stays
// with the requester and never travels.
class Authority {
 public:
  // Subject `CN=ravnest plan ID`. It and all that it issues are valid from one day before `now`, since clocks differ,
  // for five years. kInvalid where the id is not 1 to 50 letters, digits, '.', '_' and '-'.
  static Result<Authority> create(std::string_view plan_id, WallTime now = std::chrono::system_clock::now());

  // The authority that everyone with that secret comes to, for nodes that have nothing else in common: the same key and
  // subject each time, valid at any time, so that all accept what any of them issues. `now` is for what it issues.
  // The secret has to be one that nobody can guess. kInvalid as above.
  static Result<Authority> derive(ByteSpan secret, std::string_view plan_id,
                                  WallTime now = std::chrono::system_clock::now());

  // A new key, and a certificate for it: subject `CN=NAME,O=ravnest plan ID`, for both ends of a TLS connection, unable
  // to sign others. kInvalid where the name is not 1 to 63 of the same characters.
  Result<Identity> issue(std::string_view node_name) const;

  const std::string& certificate() const { return own_.certificate; }
  const std::string& key() const { return own_.key; }

 private:
  Authority(std::string title, WallTime now) : title_(std::move(title)), now_(now) {}
  static Result<std::string> title_of(std::string_view plan_id);

  std::string title_;  // "ravnest plan ID"
  WallTime now_;
  Identity own_;
};

// Whether the identity is the node's and works at `now`: its texts are what they should be, the certificate bears the
// name, the key belongs to it, the authority signed it for both ends of a connection, and it is in its time. The
// message says what to do. kCorrupt for texts that are no certificate or key or do not belong together, kInvalid where
// they are sound but of another node, another plan or another time.
Status check_identity(const Identity& identity, const std::string& authority_certificate, std::string_view node_name,
                      WallTime now);

// The common name in a certificate: "node_3", or "ravnest plan ID" in an authority's. kCorrupt for what is none.
Result<std::string> certificate_subject(const std::string& certificate);

inline constexpr std::string_view kCertificateFile = "identity.crt";
inline constexpr std::string_view kKeyFile = "identity.key";
inline constexpr std::string_view kAuthorityFile = "identity.ca";

// Writes the three files of a node's folder, which must exist. The key is never readable by others, at no moment.
Status write_identity(const std::filesystem::path& folder, const Identity& identity,
                      std::string_view authority_certificate);

struct StoredIdentity {
  Identity identity;
  std::string authority_certificate;
};

// The three files as they are; check_identity tells whether they are any good.
Result<StoredIdentity> read_identity(const std::filesystem::path& folder);

}  // namespace ravnest::identity
