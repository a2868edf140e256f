// Which checkpoints a run makes, and which one it goes on from; for nodes and ranks alike.
#pragma once

#include <filesystem>
#include <string>

#include "ravnest/checkpoint/folder.h"
#include "ravnest/checkpoint/interval.h"
#include "ravnest/object_store/settings.h"

namespace ravnest::train {

struct CheckpointOptions {
  std::filesystem::path folder;  // or s3://BUCKET/FOLDER; empty: there are none
  checkpoint::Interval every;
  checkpoint::Retention retention;
  // What to go on from, as checkpoint::find_checkpoint takes it: "newest", "best", an update or a path; or as
  // checkpoint::place_and_which does: s3://BUCKET/FOLDER. Empty: the run begins anew. With "newest" it does so, too,
  // where there are none at all.
  std::string resume;
  // Of this process: what object storage is reached with.
  object_store::Environment environment = {};

  bool wanted() const { return !folder.empty(); }
};

}  // namespace ravnest::train
