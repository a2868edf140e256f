// What may change between a run and its checkpoint that it goes on from.
//
// Settings are texts by name, as users write them; the manifest has those of the run that made it. Most may change and
// are named: how often and how long to train, schedules, compression. Those that decide which data come next may change
// between two epochs only: in the middle of one, samples would be trained on twice, and others not at all. So it is of
// the batch size, too, where the position in the data does not count samples. What only one of the two has is not
// compared: it is of another kind of run, or of another release. Whether model and optimizer fit is seen where they are
// restored (state/part_state.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/manifest.h"

namespace ravnest::checkpoint {

// Whether all who train go through the data together, each sample once in an epoch: ranks do, clusters that shard, and
// one that is alone. Where both runs do, the one goes on where all of the other were. Pure.
bool shares_data_out(const std::map<std::string, std::string>& settings);

// "epochs from 3 to 4", for each that has changed, by name. kInvalid, with the first name and both values, where one
// has that may not. Pure.
Result<std::vector<std::string>> changed_settings(const Manifest& from, const std::map<std::string, std::string>& now);

}  // namespace ravnest::checkpoint
