// How a node that ends outside of a call says so: once, through the one endpoint that it has.
//
// A node's name belongs to whoever listens at its address. So a node listens there before anything else that can fail,
// and a second process of a running node finds the address taken: it ends, and says nothing to anyone in that name.
// That the address is this very node's is known by the node's folder, which it holds while it runs, or where the two
// have folders of their own by asking: one that is stopped or starved may not answer in time.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/net/background.h"
#include "ravnest/plan/files/folder.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace ravnest::train {

// The node's endpoint, at its address. Where another program has that address (kUnavailable), `elsewhere` is an
// endpoint at any free port, for telling the others; where this very node has it, the sentence says so, and there is no
// endpoint: nobody is to be told.
struct Joined {
  Result<std::unique_ptr<transport::Endpoint>> endpoint;
  std::unique_ptr<transport::Endpoint> elsewhere;
  std::optional<plan::FolderLock> folder = {};  // to be kept as long as the endpoint
};
// `folder` is the node's own, of its plan.
Joined join_network(const transport::tcp::Options& network, const std::filesystem::path& folder);

// Why a node ends. `reason` reads on after the node's name. Who interrupts a node wants the terminal back: peers that
// are not there by then are not waited for.
struct Farewell {
  std::string reason;
  bool interrupted = false;

  static Farewell interruption() { return {"was interrupted", true}; }
};

// Tells all `nodes` but this one, which is at `stage`, that it ends, and closes the endpoint. Peers that are there hear
// of it at once; for those that are not there yet it waits a few seconds, and longer where some are: then the others
// are being started. As soon as it is `hurried` it waits as after an interruption.
void tell_why(transport::Endpoint& endpoint, const std::vector<std::string>& nodes, int stage, const Farewell& farewell,
              const std::function<bool()>& hurried = {});
// The same in the background, where there is one: whoever calls goes on, and says what is wrong here first. What
// hurries the background hurries this.
void tell_why(Background* background, std::unique_ptr<transport::Endpoint> endpoint,
              const std::vector<std::string>& nodes, int stage, const Farewell& farewell);

}  // namespace ravnest::train
