#include "ravnest/stage/call.h"

#include <utility>

#include "ravnest/base/check.h"
#include "ravnest/base/printable.h"

namespace ravnest::stage {
namespace {

// As the root shows it, others do: both ends make it fit, and twice is the same as once.
std::optional<std::string> fit_to_show(const std::optional<std::string>& sentence) {
  if (!sentence) return std::nullopt;
  return printable(printable_reason(*sentence));
}

}  // namespace

// Phases go around in one order, and nothing skips one. So whoever asks for the phase knows all that came before it: in
// kTask no second task is done, after kOver no pass begins.
void Call::enter(CallPhase phase) {
  const bool last = phase_ == CallPhase::kAccounted;
  const bool waits = phase_ == CallPhase::kReady && !is_root();
  const CallPhase next = last    ? CallPhase::kClosed
                         : waits ? CallPhase::kOver
                                 : static_cast<CallPhase>(static_cast<int>(phase_) + 1);
  RAVNEST_CHECK(phase == next, "a call of stage ", self_, " goes from phase ", static_cast<int>(phase_), " to ",
                static_cast<int>(phase), ", which is not its next");
  phase_ = phase;
}

void Call::begin(wire::Ready ready, std::uint64_t passes, bool trains) {
  enter(CallPhase::kReady);
  // Of one call of the user's that is several here, the last parts may train nothing: the other clusters wait for it
  // all the same, and the last round is held after the last part.
  trains_ = trains || (goes_on_ && trains_);
  goes_on_ = false;
  passes_before_ = passes;
  task_ = {};
  ready_.insert_or_assign(self_, std::move(ready));
  accounts_.clear();
  closed_.reset();
}

void Call::open() {
  RAVNEST_CHECK(missing().empty(), "a call is opened while ", missing().size(), " stages are not ready");
  enter(CallPhase::kOpen);
}

// Passes that were asked for before the call was finished may begin after that.
void Call::train() {
  RAVNEST_CHECK(phase_ == CallPhase::kOpen || phase_ == CallPhase::kFinishing,
                "a pass trains in a call that is not open");
  trains_ = true;
}

void Call::finish(wire::Task task, bool goes_on) {
  enter(CallPhase::kFinishing);
  task_ = std::move(task);
  goes_on_ = goes_on;
}

wire::Task& Call::task() {
  RAVNEST_CHECK(phase_ == CallPhase::kFinishing, "the task of a call is asked for in phase ", static_cast<int>(phase_));
  return task_;
}

wire::Over Call::end(std::uint64_t passes) {
  RAVNEST_CHECK(passes >= passes_before_, passes, " passes are done, ", passes_before_, " were before the call");
  enter(CallPhase::kOver);
  return {passes, task_};
}

wire::Task Call::take_task() {
  enter(CallPhase::kTask);
  return task_;
}

const wire::Account& Call::give_account(wire::Account account) {
  enter(CallPhase::kAccounted);
  account.unsaved = fit_to_show(account.unsaved);
  return accounts_.insert_or_assign(self_, std::move(account)).first->second;
}

const wire::Closed& Call::close(wire::Closed closed) {
  RAVNEST_CHECK(!is_root() || all_accounted(), "a call is closed with ", accounts_.size(), " accounts of ", count_);
  enter(CallPhase::kClosed);
  closed.goes_on = goes_on_;
  closed.unsaved = fit_to_show(closed.unsaved);
  closed.ended_early = fit_to_show(closed.ended_early);
  ready_.clear();  // others are ready for the next call as soon as they hear of this one's end
  return closed_.emplace(std::move(closed));
}

Status Call::on_ready(int from, wire::Ready ready) {
  if (!is_root() || !is_other(from)) return invalid("only the root is told who is ready, by others");
  // While the call is open everyone is: a stage enters the next one when it has heard that this one is closed.
  if (!ready_.emplace(from, std::move(ready)).second) return invalid("stage ", from, " was ready before");
  return {};
}

Status Call::on_over(int from, wire::Over over, std::uint64_t passes) {
  if (is_root() || from != 0) return invalid("only the root ends a call");
  if (phase_ != CallPhase::kReady) return invalid("a call is said to be over that is not under way here");
  // The root has this stage's answers to all passes, and none of the next call begins before this stage is ready for
  // it: so the counts agree.
  if (over.passes != passes) {
    return invalid("a call is said to be over after ", over.passes, " passes, but ", passes, " were computed here");
  }
  enter(CallPhase::kOver);
  task_ = std::move(over.task);
  return {};
}

Status Call::on_account(int from, wire::Account account) {
  if (!is_root() || !is_other(from) || phase_ < CallPhase::kOver) {
    return invalid("stage ", from, " gives account of a call that is not over");
  }
  account.unsaved = fit_to_show(account.unsaved);
  if (!accounts_.emplace(from, std::move(account)).second) return invalid("stage ", from, " gave account before");
  return {};
}

Status Call::on_closed(int from, wire::Closed closed) {
  if (is_root() || from != 0) return invalid("only the root closes a call");
  if (phase_ != CallPhase::kAccounted) return invalid("a call is closed that this stage gave no account of");
  goes_on_ = closed.goes_on;
  close(std::move(closed));
  return {};
}

// The root begins passes of calls that are open: then this stage has said that it is ready, and nobody has said that
// the call is over.
Status Call::admits_pass() const {
  if (is_root() || phase_ != CallPhase::kReady) return invalid("a pass comes to a stage that is ready for none");
  return {};
}

std::vector<int> Call::missing() const {
  std::vector<int> stages;
  for (int stage = 0; stage < count_; ++stage) {
    if (!ready_.contains(stage)) stages.push_back(stage);
  }
  return stages;
}

bool Call::all_accounted() const {
  return phase_ == CallPhase::kAccounted && static_cast<int>(accounts_.size()) == count_;
}

const wire::Account* Call::account() const {
  const auto own = accounts_.find(self_);
  return own == accounts_.end() ? nullptr : &own->second;
}

}  // namespace ravnest::stage
