// How the ranks of a run meet, as a state machine: one rank's part.
//
// Everyone joins at rank 0. When all have, and all were started alike, rank 0 tells everyone where everyone is; each
// rank connects to all others and says so; when all have, rank 0 says that the run begins. Rank 0 alone decides that it
// can not begin, and tells all ranks why in one sentence. Only where rank 0 itself is lost each rank says that.
// A rank that goes away before the table is out may come again, as another process; afterwards it ends the meeting. So
// the table waits until all are connected at one time.
// A rank that cannot be part of the run, say because it has no model, joins all the same and says so: when all have
// joined, that is what the run ends with. Had it stayed away, the others would wait for it without end.
//
// No I/O, no time: feed it what happens, carry out the actions that it returns, in order. Not thread-safe; one owner.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/net/address.h"
#include "ravnest/wire/message.h"

namespace ravnest::strategy {

struct Tell {
  int rank = 0;
  wire::Message message;
};
struct Reach {  // connect to the rank, there
  int rank = 0;
  Address address;
};
using MeetingAction = std::variant<Tell, Reach>;
using MeetingActions = std::vector<MeetingAction>;

// The setting with which a rank joins that cannot be part of the run: its value reads on after the rank's name, as in
// "failed: there is no model.pt2".
inline constexpr const char* kWithdraws = "withdraws";

class Meeting {
 public:
  // `own` is what this rank joins with. `master_host` is where it reaches rank 0; of rank 0, its own host.
  Meeting(int rank, wire::Join own, std::string master_host);

  // There is a session with the rank. `host` is where its connection comes from: a number.
  MeetingActions on_up(int rank, const std::string& host);
  // Its connection is broken; it may come back, by `on_up`, and nothing is lost.
  void on_down(int rank) { up_.erase(rank); }
  // The session is over, with all that was sent by it.
  MeetingActions on_gone(int rank);
  MeetingActions on_message(int from, const wire::Meeting& message);
  // Another rank tells why it ends.
  MeetingActions on_failed(int from, const wire::Failed& failed);
  // This rank can not go on, and says why. Of rank 0 this is what all ranks end with.
  MeetingActions fail(const std::string& sentence);

  bool met() const { return phase_ == Phase::kMet; }
  // All addresses are known: from here on others may begin to train before this rank hears that it may.
  bool knows_all() const { return phase_ != Phase::kGathering; }
  // Why the run does not begin.
  const std::optional<wire::Failed>& failure() const { return failure_; }
  // Why the run will not begin once all have joined, as far as it is known here: "rank 3 (10.0.0.2) failed: ...".
  std::optional<std::string> withdrawal() const;
  // For whom this rank waits.
  std::vector<int> missing() const;
  // Rank 0, after a failure: those who have not heard of it yet.
  std::vector<int> untold() const;
  // Where the ranks are, as far as it is known; for messages. "" where it is not.
  std::string host(int rank) const;
  // "rank 3 (10.0.0.2)".
  std::string shown(int rank) const;

 private:
  enum class Phase : unsigned char { kGathering, kConnecting, kMet, kFailed };

  int world() const { return static_cast<int>(own_.world); }
  bool is_host() const { return rank_ == 0; }
  void go_to(Phase next);
  MeetingActions on_join(int from, const wire::Join& join);
  MeetingActions on_table(const wire::Table& table);
  MeetingActions on_connected(int from);
  MeetingActions begin_if_all_joined();
  MeetingActions say_if_connected();
  MeetingActions end(wire::Failed failure);
  void note_withdrawal(int rank, const wire::Join& join);
  std::optional<std::string> misfit(int from, const wire::Join& join) const;

  const int rank_;
  const wire::Join own_;
  const std::string master_host_;
  Phase phase_ = Phase::kGathering;
  std::map<int, std::string> up_;            // ranks that are connected, and where they come from
  std::map<int, wire::RankAddress> joined_;  // rank 0: those that are here; of others: the table
  std::map<int, std::string> withdrawn_;     // of those that joined, who cannot be part of the run, and why
  std::set<int> connected_;                  // rank 0: those that have a session to every other
  std::set<int> told_;                       // rank 0: of the failure
  std::optional<wire::Failed> failure_;
};

}  // namespace ravnest::strategy
