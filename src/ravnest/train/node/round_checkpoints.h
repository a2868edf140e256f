// When one of several clusters wants a checkpoint, and where its data stand in the rounds of which one is made; at its
// root.
//
// A checkpoint is made of the first round at or after it is due, which any of the clusters may be the first to say.
// Safe from any thread: one feeds, another begins rounds, a third hears that they hold.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "ravnest/average/agreement.h"
#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/checkpoint/interval.h"
#include "ravnest/checkpoint/manifest.h"
#include "ravnest/cluster/cluster_rounds.h"

namespace ravnest::train {

class RoundCheckpoints {
 public:
  using Entry = cluster::ClusterRounds::Entry;
  using Capture = average::Capture;

  explicit RoundCheckpoints(const checkpoint::Interval& every) : due_(every) {}

  // The run begins, or goes on from the checkpoint of that number (0: from none). Before this there are none.
  void begin(const checkpoint::DataPosition& position, std::uint64_t checkpoint, TimePoint now);
  // Where the data stand behind the batch that is fed next; with the updates that the batches make.
  void fed(const checkpoint::DataPosition& position);
  // What the cluster says of a checkpoint where it enters a round behind so many passes that train. `under_way`: the
  // last one is not written yet.
  Capture at(Entry entry, std::uint64_t passes, bool under_way, TimePoint now);
  // Where the data stood in the averaging pass that entered the last round.
  checkpoint::DataPosition entered() const;
  // One of that number is made, of weights after so many updates and epochs.
  void made(std::uint64_t checkpoint, const checkpoint::DataPosition& position, TimePoint now);

 private:
  mutable Mutex mutex_;
  checkpoint::Due due_ RAVNEST_GUARDED_BY(mutex_);
  bool begun_ RAVNEST_GUARDED_BY(mutex_) = false;
  std::uint64_t last_ RAVNEST_GUARDED_BY(mutex_) = 0;                    // number
  std::deque<checkpoint::DataPosition> fed_ RAVNEST_GUARDED_BY(mutex_);  // the first is that of the last pass asked for
  checkpoint::DataPosition entered_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace ravnest::train
