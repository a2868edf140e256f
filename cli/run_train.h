// The training of a whole model: by this process alone, or as one rank of several. Only the source sees torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "ravnest/base/status.h"
#include "ravnest/strategy/launch/rendezvous.h"
#include "ravnest/strategy/launch/run_token.h"
#include "ravnest/strategy/place/place.h"
#include "train_until_told.h"

namespace ravnest::cli {

struct TrainRequest {
  std::filesystem::path model;
  std::filesystem::path config = "train.toml";
  std::filesystem::path trained = "trained";
  // What goes before the config's keys.
  std::optional<std::string> strategy = {};
  std::optional<std::string> units = {};
  std::optional<std::string> backend = {};
  bool trusted_network = false;
  std::optional<std::string> compression = {};
  std::optional<std::string> precision = {};
  std::optional<std::string> float32 = {};
  std::optional<std::int64_t> epochs = {};
  std::optional<std::int64_t> batch_size = {};
  std::optional<std::string> resume = {};  // of --resume; none: as train.toml or RAVNEST_RESUME says
  strategy::Place place = {};              // with a rank
  std::optional<strategy::RunToken> token = {};
  strategy::PortRange ports = {};
  std::string software = {};
  bool threads_are_set = false;  // by the environment: torch is left alone
  bool gpus_are_chosen = false;  // by the environment: which ones this process sees
};

// Whether the request and its config go together: before any rank is started.
Status check_train(const TrainRequest& request);

// Until the run is over. Progress, messages and the summary go to standard error, those of the run by rank 0. A failure
// of the poll ends the run on all ranks; it is asked every few milliseconds.
Status run_train(const TrainRequest& request, Told& told);

}  // namespace ravnest::cli
