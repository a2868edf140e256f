// A command line that says from where a run goes on.
#pragma once

#include <string>

#include "ravnest/base/status.h"
#include "ravnest/train/config/config.h"

namespace ravnest::cli {

inline Status resume_from(const std::string& which, train::TrainConfig& config) {
  if (!config.checkpoint)
    return invalid("--resume needs checkpoints to go on from: give train.toml a [checkpoint] with their folder");
  config.checkpoint->resume = which;
  return {};
}

}  // namespace ravnest::cli
