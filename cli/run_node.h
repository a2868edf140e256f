// A node's training, from its config to its end. Only the source sees torch.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ravnest/base/status.h"
#include "ravnest/net/background.h"
#include "train_until_told.h"

namespace ravnest::cli {

struct NodeRequest {
  std::string name;
  std::filesystem::path config = "train.toml";
  std::filesystem::path node_data = "node_data";
  std::filesystem::path trained = "trained";
  std::string software;
  bool threads_are_set = false;            // by the environment: torch is left alone
  std::shared_ptr<Background> background;  // of train::NodeOptions
  std::optional<std::string> resume;       // of --resume; none: as train.toml or RAVNEST_RESUME says
};

// Until the run is over. Progress, messages and the summary go to standard error. A failure of the poll ends the run on
// all nodes; it is asked every few milliseconds.
Status run_node(const NodeRequest& request, Told& told);

}  // namespace ravnest::cli
