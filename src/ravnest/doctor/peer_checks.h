// Whether a node and one of its peers can talk.
//
// Either side of a pair may dial, so it is enough that one can reach the other. From here that is seen in full only
// where this side gets through; then the peer is asked to dial back. Otherwise the peer may still come by itself, if
// it is being examined at the same time.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/doctor/findings.h"
#include "ravnest/transport/tcp/contact.h"

namespace ravnest::doctor {

struct PeerCheck {
  transport::tcp::Caller own;
  transport::tcp::Peer peer;
  Duration patience = std::chrono::seconds(5);  // with one attempt
  TimePoint try_until;                          // more attempts until then, where one that fails may work later
  std::function<bool()> was_heard;              // whether the peer has come by itself
  int stop = -1;
};

// Its time is bounded by `try_until`, one more attempt and some twenty seconds of questions.
std::vector<Finding> check_peer(const PeerCheck& check);

}  // namespace ravnest::doctor
