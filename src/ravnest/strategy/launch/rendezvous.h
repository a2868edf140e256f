// How the ranks of a run meet: from "I am rank 3 of 8" to an endpoint with a session to every other rank.
//
// Rank 0 listens where all ranks look for it, the others dial it, in any order of start. Each says what it was started
// with and where it is reached; when all are there and alike, rank 0 tells everyone the addresses of all, and all
// connect to all. What keeps the run from starting, rank 0 tells everyone too: each rank fails with the same sentence.
// There is no time limit for the waiting: ranks of a batch system may start hours apart. It says whom it waits for
// after a second and then every five seconds, and `poll` can end it.
//
// The decisions are meeting.h's, without threads and sockets; here they meet the network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/log.h"
#include "ravnest/base/status.h"
#include "ravnest/net/address.h"
#include "ravnest/strategy/launch/run_token.h"
#include "ravnest/strategy/place/place.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/wire/call_messages.h"

namespace ravnest::strategy {

// Asked now and then by whoever waits; a failure ends the waiting.
using Poll = std::function<Status()>;

// "rank_3": the name of a rank's endpoint, and in its certificate.
std::string rank_name(int rank);
// The rank of that name; none for another name.
std::optional<int> rank_of(const std::string& name);

// Ports that a rank may listen on; by default whichever is free.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};
// "40000-40100". kInvalid for anything else.
Result<PortRange> parse_ports(const std::string& written);

// Where rank 0 does not listen on the master's port but tells its address otherwise (torchelastic_store.h).
struct MasterExchange {
  std::function<Status(const Address& own)> publish;      // by rank 0
  std::function<Result<Address>(const Poll& poll)> find;  // by all others; waits for rank 0
};

struct RendezvousOptions {
  Place place = {};                          // with a rank
  std::optional<RunToken> token = {};        // none: only where all ranks are on this machine, over loopback
  std::vector<wire::Setting> settings = {};  // what has to be the same on all ranks, as people call it: {"model", ...}
  std::string software = {};                 // the release, which has to be the same too
  PortRange ports = {};                      // of ranks other than rank 0
  std::string host = {};                     // where others reach this rank; empty: as rank 0 sees it
  std::optional<MasterExchange> exchange = {};  // needed where place.agent_store
  Logger log = Logger();
};

// The ranks of a run, met. `early` is what came for the training while the last ones were still meeting: it goes before
// what the endpoint receives. Ranks (ranks.h) sees to that.
struct Met {
  int rank = 0;
  int world = 1;
  std::unique_ptr<transport::Endpoint> endpoint;  // rank_K, with a session to every other rank
  std::vector<std::string> hosts;                 // by rank, where it is: "10.0.0.2"
  std::vector<transport::Event> early;
};

// Waits until all ranks have met, or one of them can not be part of the run: then every rank that has reached rank 0
// returns the same sentence. kInvalid where trying again will not help, kUnavailable where a rank was lost, and what
// `poll` returned where that has ended it; the others are told.
Result<Met> meet(RendezvousOptions options, const Poll& poll);

// For a rank that cannot be part of the run: were it not there, the others would wait for it without end. It waits for
// them as `meet` does, and when all are there every rank returns the same sentence, "rank 3 (10.0.0.2) failed: there is
// no model.pt2", where `reason`, which reads on after the name, is "failed: ...". Where nobody can be told it returns
// the reason, and why nobody can be.
Status withdraw(RendezvousOptions options, const std::string& reason, const Poll& poll);

}  // namespace ravnest::strategy
