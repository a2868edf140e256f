// Which checkpoints a run makes, and which one it goes on from; for nodes and ranks alike.
#pragma once

#include <filesystem>
#include <string>

#include "ravnest/checkpoint/folder.h"
#include "ravnest/checkpoint/interval.h"

namespace ravnest::train {

struct CheckpointOptions {
  std::filesystem::path folder;  // empty: there are none
  checkpoint::Interval every;
  checkpoint::Retention retention;
  // What to go on from, as checkpoint::find_checkpoint takes it: "newest", "best", an update or a path. Empty: the run
  // begins anew. With "newest" it does so, too, where there are none at all.
  std::string resume;

  bool wanted() const { return !folder.empty(); }
};

}  // namespace ravnest::train
