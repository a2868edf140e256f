// The endpoint for real networks: one TLS connection per pair of peers, over TCP.
//
// One thread of the endpoint's own does all the network's work; short-lived ones look up names and connect, since the
// system makes both wait. Either side of a pair may dial, so it suffices that one can reach the other. Only peers of
// the plan get in, each checked by its certificate; others are dropped after a few seconds at most, and no more than
// kMostStrangers of them are borne at a time.
#pragma once

#include <cstdint>
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
  Address address = {};  // as others dial it; port 0: not known yet, nobody dials it until `meet`
};

// Someone who wanted a session and does not get it.
struct TurnedAway {
  enum class Why : unsigned char {
    kStranger,      // it has shown no certificate of this plan, or does not accept this node's
    kOtherPlan,     // its certificate is good, but its hello is of another plan
    kNotAPeer,      // a node of the plan, but none of `peers`
    kOtherVersion,  // of the protocol
    kSecond,        // another process with the same name is connected, and goes on
  };
  Why why = Why::kStranger;
  std::string name;   // in its certificate, or as it says where there is no TLS; empty for a stranger
  std::string from;   // where its connection comes from: "10.0.0.2:51234"
  std::string first;  // kSecond: where the first one's comes from
  std::string reason;
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
  // Told of everyone who is turned away, by the network's thread. What it returns, where it is not empty, is what that
  // node is told in place of `reason`; its PeerTrouble is kRefused then.
  std::function<std::string(const TurnedAway&)> on_turned_away = {};
  Logger log;
};

// An endpoint whose peers may be found after it was opened.
class NetworkEndpoint : public Endpoint {
 public:
  // Where it listens; what the system chose where 0 was asked for.
  virtual std::uint16_t port() const = 0;
  // The number of the host at the other end of the peer's connection; empty while there is none.
  virtual std::string host_of(const std::string& peer) const = 0;
  // From now on the peer is dialled there. kNotFound for a name that is not a peer; kInvalid for an address that the
  // options do not allow without TLS.
  virtual Status meet(const std::string& peer, const Address& address) = 0;
};

// kInvalid where the identity is not this node's or not valid now, where there is none though it is needed, and where
// kOnLoopback is asked for an address that is not loopback, or the session's options can not work; kUnavailable where
// the port is taken.
Result<std::unique_ptr<NetworkEndpoint>> open(Options options);

// Whether the host is this machine's own, by its text alone: localhost, 127.0.0.0/8 or ::1.
bool is_loopback(const std::string& host);

}  // namespace ravnest::transport::tcp
