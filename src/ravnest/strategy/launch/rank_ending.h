// How a data-parallel run ends with one sentence on all its ranks, as a state machine: one rank's part.
//
// What ends a run: a rank that fails by itself, one that is lost, and one that has left while others still need it,
// which shows when something that needs it breaks (`broke`): then whoever has heard of no failure within a moment
// decides by what it sees. Whoever knows of a reason tells all others (stage/ending.h); and since a rank may be lost
// when it has told some of them only, what is better than the reason that was told before is passed on too, and whoever
// has heard all waits a moment longer for it. So all that live end with the same sentence as long as messages between
// them take less than a fraction of that moment, however many ranks fail, are lost or leave. A rank that hangs does not
// keep the others.
//
// No I/O, and no time of its own: feed it what happens, and call `on_time` when `wakes_at` comes. Each gives what all
// others are to be told now, if anything. Not thread-safe; one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/stage/ending.h"
#include "ravnest/wire/message.h"

namespace ravnest::strategy {

class RankEnding {
 public:
  using ToTell = std::optional<wire::Failed>;

  // `shown` are all ranks as people read them: "rank 3 (10.0.0.2)".
  RankEnding(int rank, std::vector<std::string> shown);

  // The step that is under way, for messages: "rank 3 (10.0.0.2) was lost at step 812".
  void at_step(std::uint64_t step) { step_ = step; }

  // This rank ends the run, with a whole sentence.
  ToTell fail(const std::string& sentence, TimePoint now);
  // Something that needs the others broke here, with `seen`.
  ToTell broke(const Status& seen, TimePoint now);
  // Another rank tells why the run ends.
  ToTell on_failed(int from, const wire::Failed& told, TimePoint now);
  // A rank has closed its endpoint in good order; by itself that is no failure: ranks end their last step one after the
  // other.
  ToTell on_left(int from, TimePoint now);
  ToTell on_lost(int from, TimePoint now);
  // Its connection is broken and being made again; or it is back.
  void on_connection(int from, bool is_broken);
  // It could not be told: it is gone already, or will be.
  void on_unreachable(int to);
  ToTell on_time(TimePoint now);

  // When `on_time` is to be called next, if nothing happens before; max: never.
  TimePoint wakes_at() const;
  bool has_begun() const { return ending_.begun(); }
  // What the run ends with, kUnavailable: the same on all ranks. Once it is there it stays.
  const std::optional<Status>& outcome() const { return outcome_; }

 private:
  int world() const { return static_cast<int>(shown_.size()); }
  void check_other(int rank) const;
  ToTell begin(wire::Failed reason, TimePoint now);
  // By what is seen here, where nobody has told.
  ToTell decide(TimePoint now);
  TimePoint decides_at() const;
  void look(TimePoint now);

  const int rank_;
  const std::vector<std::string> shown_;
  std::uint64_t step_ = 0;
  stage::Ending ending_;
  std::set<int> left_;
  std::set<int> disconnected_;
  std::optional<Status> seen_;  // what broke here, while nobody has said why
  TimePoint broke_at_;
  std::optional<TimePoint> settles_by_;   // since the ending has begun
  std::optional<TimePoint> settled_for_;  // since all have been heard: until when something better may still come
  std::optional<Status> outcome_;
};

}  // namespace ravnest::strategy
