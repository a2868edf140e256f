// Who a rank is on the network: what all ranks of a run derive from its token, each for itself.
//
// Everyone who has the token comes to the same certificate authority, and issues a certificate for itself alone. So no
// secret crosses the network, no machine has to be asked first, and the transport is that of a plan's nodes.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "ravnest/base/status.h"
#include "ravnest/identity/identity.h"
#include "ravnest/strategy/launch/run_token.h"

namespace ravnest::strategy {

// "rank_K", with a new key. Those of one token accept each other, in any run.
Result<identity::StoredIdentity> run_identity(const RunToken& token, int rank,
                                              identity::WallTime now = std::chrono::system_clock::now());

// What stands for a plan's id between the ranks of a run: another one for another token or another run. Says nothing
// about the token.
Result<std::string> run_plan(const std::optional<RunToken>& token, const std::string& run_id);

}  // namespace ravnest::strategy
