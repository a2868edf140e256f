// The endpoint for real networks: one TLS connection per pair of peers, over TCP.
//
// One thread of the endpoint's own does all the network's work; short-lived ones look up names and connect, since the
// system makes both wait. Either side of a pair may dial, so it suffices that one can reach the other. Only peers of
// the plan get in, each checked by its certificate; others are dropped after a few seconds at most, and no more than
// kMostStrangers of them are borne at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/log.h"
#include "ravnest/base/status.h"
#include "ravnest/identity/identity.h"
#include "ravnest/net/address.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/session.h"

namespace ravnest::transport::tcp {

// Connections at a time that have not shown yet who they are; when another one comes, the oldest goes.
inline constexpr std::size_t kMostStrangers = 128;
// Connections at a time that only ask questions; more are turned away.
inline constexpr std::size_t kMostProbes = 32;

struct Peer {
  std::string name;
  Address address;  // as others dial it
};

// Without TLS anyone who reaches the port can be any node. It has to be asked for.
enum class Insecure : unsigned char { kNo, kOnLoopback, kAnywhere };

struct Options {
  std::string name;
  std::string plan;      // its id
  std::string software;  // the release, for messages
  Address listen;        // an empty host: every address
  std::vector<Peer> peers;
  std::optional<identity::StoredIdentity> identity;  // needed unless insecure
  Insecure insecure = Insecure::kNo;
  SessionOptions session;
  // Answers questions (contact.h) and dials back, but has no sessions: it dials nobody by itself and turns away those
  // who want to exchange messages, so that a node can be examined before it runs.
  bool probes_only = false;
  // Told the name of each node that comes with questions, by the network's thread: keep it short.
  std::function<void(const std::string& asker)> on_asked;
  Logger log;
};

// kInvalid where the identity is not this node's or not valid now, where there is none though it is needed, and where
// kOnLoopback is asked for an address that is not loopback, or the session's options can not work; kUnavailable where
// the port is taken.
Result<std::unique_ptr<Endpoint>> open(Options options);

// Whether the host is this machine's own, by its text alone: localhost, 127.0.0.0/8 or ::1.
bool is_loopback(const std::string& host);

}  // namespace ravnest::transport::tcp
