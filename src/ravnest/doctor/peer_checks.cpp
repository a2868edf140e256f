#include "ravnest/doctor/peer_checks.h"

#include <cmath>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"
#include "ravnest/doctor/path.h"

namespace ravnest::doctor {
namespace {

using transport::tcp::Contact;
using transport::tcp::Reached;
using transport::tcp::Trouble;

constexpr int kProbes = 5;
constexpr Duration kPause = std::chrono::milliseconds(300);
// Longer than the peer itself tries.
constexpr Duration kDialBackTime = std::chrono::seconds(8);

// Whether it may work as soon as somebody over there has started something.
bool may_pass(Trouble trouble) {
  return trouble == Trouble::kNothingListens || trouble == Trouble::kSilence || trouble == Trouble::kNoRoute ||
         trouble == Trouble::kBroken;
}

bool was_heard(const PeerCheck& check) { return check.was_heard && check.was_heard(); }

Reached reach_in_time(const PeerCheck& check) {
  for (;;) {
    // One who comes by itself has often only just begun to listen: it deserves an attempt after that.
    const bool heard_before = was_heard(check);
    Reached reached = transport::tcp::reach(check.own, check.peer, Wait::of(check.patience, check.stop));
    if (!may_pass(reached.trouble) || heard_before || SystemClock().now() >= check.try_until) return reached;
    (void)wait_for(-1, 0, Wait::of(kPause, check.stop));
  }
}

Finding not_reached(const PeerCheck& check, const Reached& reached) {
  const std::string& peer = check.peer.name;
  const std::string& own = check.own.name;
  if (was_heard(check)) {
    return {Severity::kWarning, own,
            text("cannot reach ", peer, ", which has reached it: that is enough, since either side may dial. ",
                 reached.status.message())};
  }
  const bool may_come = reached.trouble == Trouble::kSilence || reached.trouble == Trouble::kNoRoute;
  const std::string hint = may_come ? text(". If ", peer, " can dial ", own,
                                           ", that is enough: run `ravnest doctor --wait 60` on both machines to see")
                                    : "";
  return {Severity::kProblem, own, text("cannot reach ", peer, ": ", reached.status.message(), hint)};
}

std::vector<Finding> question(const PeerCheck& check, Contact& contact) {
  const std::string& peer = check.peer.name;
  const std::string& own = check.own.name;
  const auto trips = measure_round_trips(contact, kProbes, check.stop);
  if (!trips.ok()) {
    return {{Severity::kProblem, own,
             text("reached ", peer, ", but the connection did not last: ", trips.status().message(),
                  "; look at the log of ", peer)}};
  }
  std::vector<Finding> findings;
  const std::string reached = text("reaches ", peer, " at ", contact.dialled(), " in ", time_in_words(trips->median_s));
  const wire::Probe back{wire::ProbeKind::kDialBack, kProbes, 0};
  const auto answer = contact.ask(back, {}, Wait::of(kDialBackTime, check.stop));
  if (answer.ok() && answer->ok) {
    findings.push_back({Severity::kOk, own, text(reached, ", and the other way round")});
  } else {
    const std::string why = answer.ok() ? printable(answer->text) : answer.status().message();
    findings.push_back({Severity::kWarning, own,
                        text(reached, ", but ", peer, " cannot reach ", own, " (", why,
                             "). That is enough, since either side may dial, as long as ", own, " can")});
  }
  if (std::abs(trips->clock_ahead_s) > kMostSkewS) {
    findings.push_back({Severity::kWarning, own,
                        text("reaches ", peer, ", but ", clock_in_words(*trips),
                             ": set both by a time server, since certificates and logs depend on it")});
  }
  return findings;
}

}  // namespace

std::vector<Finding> check_peer(const PeerCheck& check) {
  const Reached reached = reach_in_time(check);
  if (reached.contact == nullptr) return {not_reached(check, reached)};
  return question(check, *reached.contact);
}

}  // namespace ravnest::doctor
