// A command line that says from where a run goes on, and an environment that says how to get there.
#pragma once

#include <optional>
#include <string>

#include "own_environment.h"
#include "ravnest/base/status.h"
#include "ravnest/train/config/config.h"

namespace ravnest::cli {

// What of a config a process has to say by itself: `which` of a command line, none where there was none.
inline Status complete_checkpoint(const std::optional<std::string>& which, train::TrainConfig& config) {
  if (config.checkpoint) config.checkpoint->environment = own_environment();
  if (!which) return {};
  if (!config.checkpoint)
    return invalid("--resume needs checkpoints to go on from: give train.toml a [checkpoint] with their folder");
  config.checkpoint->resume = *which;
  return {};
}

}  // namespace ravnest::cli
