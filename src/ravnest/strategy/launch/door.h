// What rank 0 says to those who are not part of its run, and what it makes of them.
//
// Whoever has the run's token and still does not fit (a rank beyond the world, a second process with a rank's number)
// is told why, and as long as the ranks are meeting it ends the run: somebody has started it wrongly. Whoever has
// another token is a stranger, and strangers must not be able to end a run: they are only spoken of. Safe from any
// thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "ravnest/base/mutex.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace ravnest::strategy {

class Door {
 public:
  Door(int rank, int world, std::string run_id) : rank_(rank), world_(world), run_id_(std::move(run_id)) {}

  // For Options::on_turned_away: what to say; nothing where there is nothing better than the usual words.
  std::string turn_away(const transport::tcp::TurnedAway& who);

  // Why the run can not begin, if somebody came who shows it.
  std::optional<std::string> complaint() const;
  // For those who wait: the last stranger; empty where there was none.
  std::string strangers() const;

 private:
  const int rank_;
  const int world_;
  const std::string run_id_;
  mutable Mutex mutex_;
  std::optional<std::string> complaint_ RAVNEST_GUARDED_BY(mutex_);
  std::string stranger_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace ravnest::strategy
