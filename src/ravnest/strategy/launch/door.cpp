#include "ravnest/strategy/launch/door.h"

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"
#include "ravnest/strategy/launch/rendezvous.h"

namespace ravnest::strategy {
namespace {

using transport::tcp::TurnedAway;

// "10.0.0.2" of "10.0.0.2:51234".
std::string host_of(const std::string& from) { return from.substr(0, from.rfind(':')); }

}  // namespace

std::string Door::turn_away(const TurnedAway& who) {
  const MutexLock lock(mutex_);
  const std::optional<int> rank = rank_of(who.name);
  const auto complain = [&](const std::string& sentence) RAVNEST_REQUIRES(mutex_) {
    if (rank_ == 0 && !complaint_) complaint_ = sentence;
    return sentence;
  };
  switch (who.why) {
    case TurnedAway::Why::kStranger:
      stranger_ = text(host_of(who.from), " was turned away: it does not have this run's token");
      return "";
    case TurnedAway::Why::kOtherPlan:
      return text("rank ", rank_, " here is of ", run_id_.empty() ? "another run" : text("run \"", run_id_, "\""),
                  ", and ", rank ? text("rank ", *rank) : printable(who.name), " at ", host_of(who.from),
                  " of another one: end the run that holds the port, or give this one another MASTER_PORT");
    case TurnedAway::Why::kNotAPeer:
      if (!rank || *rank < world_) return "";
      return complain(text("rank ", *rank, " (", host_of(who.from), ") is beyond the ", world_, " ranks that rank ",
                           rank_, " was started for: start all ranks for the same number"));
    case TurnedAway::Why::kOtherVersion: return rank ? complain(who.reason) : "";
    case TurnedAway::Why::kSecond:
      if (!rank) return "";
      return complain(text("two processes say that they are rank ", *rank, ", at ", who.first, " and at ", who.from,
                           ": each process needs a number of its own"));
  }
  return "";
}

std::optional<std::string> Door::complaint() const {
  const MutexLock lock(mutex_);
  return complaint_;
}

std::string Door::strangers() const {
  const MutexLock lock(mutex_);
  return stranger_;
}

}  // namespace ravnest::strategy
