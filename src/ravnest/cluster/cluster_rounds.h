// What a driver asks and tells of the rounds in which its cluster averages with others (average/averaging.h).
//
// It stands between the stage, which counts the rounds that it gave to and took in, and the averager, which holds them:
// once per turn it reads how the rounds stand and tells the stage; when a pass begins or training ends it tells the
// averager. Where there are no other clusters nothing here does anything, and every call may end.
// Of the compute thread, like the stage.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/average/averaging.h"
#include "ravnest/base/status.h"
#include "ravnest/stage/call.h"
#include "ravnest/stage/stage.h"
#include "ravnest/wire/message.h"

namespace ravnest::cluster {

class ClusterRounds {
 public:
  // What the root says of a checkpoint after the round that it enters behind so many passes that train.
  enum class Entry : std::uint8_t {
    kMarkedPass,     // in the middle of training: its result comes later, and to each stage at another update
    kAveragingPass,  // or when all training is done
    kLast,
  };
  using CaptureAt = std::function<average::Capture(Entry entry, std::uint64_t steps)>;

  // All outlive it; `averaging` is null where there are no other clusters. Where the call stands, it asks. `capture`
  // may be empty: there are no checkpoints.
  ClusterRounds(average::Averaging* averaging, stage::Stage& stage, const stage::Call& call, CaptureAt capture)
      : averaging_(averaging), stage_(stage), call_(call), capture_(std::move(capture)) {}

  void begin_call() { ends_with_the_last_ = false; }
  // No round of this call comes after the one that ends its training, unless it trains on.
  void end_with_the_last() { ends_with_the_last_ = true; }
  bool ends_with_the_last() const { return ends_with_the_last_; }

  // Once per turn. Why no round can be held any more, if that is so.
  Status look();
  // The stage begins a pass.
  void on_begin(const wire::PassHead& head);
  // Root, when all passes are done: whether the other clusters let this call end. They are told that this one is
  // through, and until they are they may want averaging passes of it.
  bool let_the_call_end();
  // Root: the names of the other roots for whom this cluster waits just now.
  std::vector<std::string> waiting_for() const;

 private:
  average::Capture capture_at(Entry entry, std::uint64_t steps) const {
    return capture_ ? capture_(entry, steps) : average::Capture();
  }

  average::Averaging* averaging_;
  stage::Stage& stage_;
  const stage::Call& call_;
  const CaptureAt capture_;
  average::RoundState state_;        // as of this turn, or of what was told since
  bool ends_with_the_last_ = false;  // until a pass that trains begins
};

}  // namespace ravnest::cluster
