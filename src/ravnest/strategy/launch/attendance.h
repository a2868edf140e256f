// One rank at the meeting: what the state machine decides is done here, over the rank's endpoint.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/net/address.h"
#include "ravnest/strategy/launch/door.h"
#include "ravnest/strategy/launch/meeting.h"
#include "ravnest/strategy/launch/reminder.h"
#include "ravnest/strategy/launch/rendezvous.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace ravnest::strategy {

// All on the caller's thread. `options` and `poll` outlive it. `master` is where this rank dials rank 0; of rank 0,
// where it is.
class Attendance {
 public:
  Attendance(const RendezvousOptions& options, const Poll& poll,
             std::unique_ptr<transport::tcp::NetworkEndpoint> endpoint, Address master, std::shared_ptr<Door> door);

  // Until all have met, or the run can not begin; then the endpoint is closed, and those who can be reached know why.
  Result<Met> attend();

 private:
  wire::Join introduction() const;
  void forget_the_meeting();
  Status listen(TimePoint until);
  void on_change(int from, transport::Event event);
  void perform(const MeetingActions& actions);
  Status check_master();
  void say_for_whom();
  std::string described(int rank) const;
  Status interrupted(const Status& why);
  Status give_up(const Status& why);
  Status end();
  void linger();
  Met result();

  const RendezvousOptions& options_;
  const Poll& poll_;
  const int rank_;
  const SystemClock clock_;
  std::unique_ptr<transport::tcp::NetworkEndpoint> endpoint_;
  Address master_;
  std::shared_ptr<Door> door_;
  Meeting meeting_;
  bool knew_all_ = false;
  std::vector<transport::Event> early_;
  transport::PeerTrouble trouble_ = transport::PeerTrouble::kNone;  // with rank 0
  TimePoint troubled_since_;
  Reminder reminder_;
  std::optional<std::string> said_;  // why the run will not begin
};

}  // namespace ravnest::strategy
