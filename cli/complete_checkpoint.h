// From which checkpoint a run goes on, and how to get there: what a process has to say of that beside train.toml.
#pragma once

#include <optional>
#include <string>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/folder.h"
#include "ravnest/object_store/settings.h"
#include "ravnest/train/config/config.h"

namespace ravnest::cli {

// `flag`: what --resume says, none where it is not given. It counts before train.toml, and RAVNEST_RESUME where neither
// says anything.
inline Status complete_checkpoint(const std::optional<std::string>& flag, const object_store::Environment& environment,
                                  train::TrainConfig& config) {
  if (config.checkpoint) config.checkpoint->environment = environment;
  std::optional<std::string> said = flag;
  std::string who = "--resume";
  if (!said && !(config.checkpoint && config.checkpoint->resume)) {
    if (const auto variable = environment.find("RAVNEST_RESUME"); variable != environment.end()) {
      said = variable->second;
      who = "RAVNEST_RESUME";
    }
  }
  if (!said) return {};
  std::string which = checkpoint::resume_word(*said);
  if (config.checkpoint)
    config.checkpoint->resume = std::move(which);
  else if (!which.empty())
    return invalid(who, " needs checkpoints to go on from: give train.toml a [checkpoint] with their folder");
  return {};
}

}  // namespace ravnest::cli
