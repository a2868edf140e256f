#include "ravnest/stage/simulation/run.h"

#include <algorithm>
#include <utility>

#include "ravnest/stage/simulation/misfits.h"
#include "ravnest/stage/simulation/story.h"

namespace ravnest::stage::simulation {
namespace {

constexpr std::uint64_t kMostEvents = 200'000;  // of runs that have some thousands at most

}  // namespace

Run::Run(Choices& choices, const Tell& tell, Sabotage sabotage)
    : choices_(choices),
      tell_(tell),
      sabotage_(sabotage),
      scenario_(draw_scenario(choices)),
      network_(scenario_, choices),
      checker_(scenario_),
      failed_(scenario_.stages.size()),
      struck_(scenario_.stages.size()) {
  for (StageOptions options : scenario_.stages) {
    if (sabotage == Sabotage::kWidensTheWindow) options.window = scenario_.window() + 1;
    nodes_.emplace_back(options);
  }
}

SimulationOutcome Run::run() {
  if (tell_) {
    for (const std::string& line : in_words(scenario_)) say(line);
  }
  for (int index = 0; index < scenario_.count(); ++index) turn(index);
  while (checker_.violation().empty()) {
    const std::optional<Event> event = network_.next();
    if (!event) break;
    for (const Fault& fault : scenario_.faults) {
      if (fault.turn == events_) strike(fault);
    }
    if (++events_ > kMostEvents) {
      checker_.violated(Promise::kNothingHangs, "the run goes on and on");
      break;
    }
    mix(network_.now());
    mix(static_cast<std::uint64_t>(event->kind) << 32 | static_cast<std::uint64_t>(event->to) << 16 |
        static_cast<std::uint64_t>(event->from));
    mix(event->number);
    happens(*event);
  }
  if (checker_.violation().empty()) check_the_end();
  return outcome();
}

void Run::happens(const Event& event) {
  Node& at = node(event.to);
  switch (event.kind) {
    case EventKind::kWorked: return worked(event.to);
    case EventKind::kResumed:
      (event.number == 0 ? at.paused : offers_pause_) = false;
      read_inbox(event.to);
      return turn(event.to);
    case EventKind::kSettled:
      if (at.state == State::kEnding) end(event.to);
      return;
    default: break;
  }
  outcome_.messages += is_message(event.kind) ? 1 : 0;
  at.inbox.push_back(event);
  read_inbox(event.to);
  turn(event.to);
}

void Run::read_inbox(int index) {
  Node& at = node(index);
  if (at.paused || (at.working && !habits(index).reads_while_working)) return;
  for (const Event& event : at.inbox) take(index, event);
  at.inbox.clear();
}

void Run::take(int index, const Event& event) {
  Node& at = node(index);
  const bool running = at.state == State::kRunning;
  if (at.state == State::kEnded || at.state == State::kDead) return;
  if (at.state == State::kLeft) {
    if (event.kind < EventKind::kFailed) {
      checker_.violated(Promise::kNothingHangs, "stage ", index, ", which was through, gets ", in_words(event));
    }
    return;
  }
  if (tell_) say("stage ", index, running ? " hears " : ", ending, hears ", in_words(event));
  switch (event.kind) {
    case EventKind::kFailed: return fails(index, at.ending.on_failed(event.from, told_[event.number]));
    case EventKind::kLost:
      at.ending.on_gone(event.from);
      return fails(index, at.ending.fail({static_cast<std::uint32_t>(event.from), true, text("says ", index)}));
    case EventKind::kLeft: at.ending.on_gone(event.from); return end_if_settled(index);
    default:
      if (running) feed(index, event);
  }
}

void Run::feed(int index, const Event& event) {
  if (choices_.chance(scenario_.misfit_percent)) inject_misfit(index);
  const Status taken = hand_over(index, event);
  if (!taken.ok()) return checker_.violated(Promise::kFits, "stage ", index, " says: ", taken.message());
  checker_.taken(event);
  if (scenario_.misfit_percent > 0) node(index).taken.push_back(event);
  if (event.kind == EventKind::kClosed) return leave_call(index);
  advance_call(index);
}

Status Run::hand_over(int index, const Event& event) {
  Stage& stage = node(index).stage;
  Call& call = node(index).call;
  switch (event.kind) {
    case EventKind::kForward: {
      if (Status admitted = call.admits_pass(); !admitted.ok()) return admitted;
      wire::PassHead head = event.head;
      if (sabotaged(Sabotage::kIgnoresUpdates, index)) head.updates = 0;
      return stage.on_forward(event.from, head);
    }
    case EventKind::kBackward: return stage.on_backward(event.from, event.number);
    case EventKind::kTiedGradients: return stage.on_tied_gradients(event.from, event.number);
    case EventKind::kTiedValues: return stage.on_tied_values(event.from, event.number);
    case EventKind::kReady: return call.on_ready(event.from, {});
    case EventKind::kOver: return call.on_over(event.from, {event.number, {}}, stage.passes_done());
    case EventKind::kAccount: return call.on_account(event.from, {});
    case EventKind::kClosed: return call.on_closed(event.from, {});
    case EventKind::kReport: ++reports_; return {};
    case EventKind::kHeld: return stage.on_held(event.number, event.head.checkpoint);
    default: return {};
  }
}

void Run::inject_misfit(int index) {
  Node& at = node(index);
  const std::optional<Event> misfit = draw_misfit(choices_, scenario_, checker_, index, at.call.phase(), at.taken);
  if (!misfit) return;
  ++outcome_.misfits;
  if (tell_) say("stage ", index, " hears, though it does not fit, ", in_words(*misfit));
  const Stage stage_before = at.stage;
  const Call call_before = at.call;
  const Status taken = hand_over(index, *misfit);
  if (taken.code() != Code::kInvalid || at.stage != stage_before || at.call != call_before) {
    checker_.violated(Promise::kMisfits, "stage ", index, taken.ok() ? " takes " : " changes with ", in_words(*misfit));
  }
}

void Run::worked(int index) {
  Node& at = node(index);
  if (at.state != State::kRunning && at.state != State::kEnding) return;
  at.working = false;
  if (at.fails_next) {
    throws(index);
  } else if (at.state == State::kRunning) {
    at.stage.done(at.work);
    checker_.ends(index, at.work);
    exchange(index, at.work);
    send_results(index, at.work);
    advance_call(index);
  }
  read_inbox(index);
  turn(index);
}

void Run::send(EventKind kind, int from, int to, std::uint64_t number, Lane lane) {
  network_.send({.kind = kind, .to = to, .from = from, .number = number, .head = {}}, lane);
}

void Run::send_results(int index, const Work& work) {
  Node& at = node(index);
  const StageOptions& options = at.stage.options();
  const std::uint64_t pass = work.head.pass;
  const bool reported =  // by the leaf
      work.head.kind != wire::PassKind::kAverage && work.head.kind != wire::PassKind::kSnapshot;
  const Neighbours& neighbours = at.stage.neighbours(work.head.kind);
  switch (work.kind) {
    case WorkKind::kForward:
      for (const int consumer : neighbours.consumers) {
        if (++at.forwards_sent == 3 && sabotaged(Sabotage::kForgetsAForward, index)) continue;
        network_.send(
            {.kind = EventKind::kForward, .to = consumer, .from = index, .number = pass, .head = checker_.head(pass)},
            Lane::kNormal);
      }
      if (!reported && index == 0) ++reports_;
      if (at.stage.is_leaf() && index > 0 && reported) send(EventKind::kReport, index, 0, pass, Lane::kNormal);
      break;
    case WorkKind::kBackward:
    case WorkKind::kAnswer:
      for (const int producer : neighbours.producers) {
        send(EventKind::kBackward, index, producer, pass, Lane::kHigh);
        if (sabotaged(Sabotage::kAnswersTwice, index)) send(EventKind::kBackward, index, producer, pass, Lane::kHigh);
      }
      if (work.kind == WorkKind::kBackward && at.stage.ties_pass_by_pass()) {
        for (const int keeper : options.tied_keepers) {
          send(EventKind::kTiedGradients, index, keeper, pass, Lane::kNormal);
        }
      }
      break;
    case WorkKind::kUpdate:
    case WorkKind::kAverage:
      if (work.kind == WorkKind::kUpdate && !at.stage.ties_pass_by_pass()) {
        for (const int keeper : options.tied_keepers) {
          send(EventKind::kTiedGradients, index, keeper, work.number, Lane::kNormal);
        }
      }
      for (const int user : options.tied_users) {
        send(EventKind::kTiedValues, index, user, at.stage.updates(), Lane::kNormal);
      }
      break;
    case WorkKind::kAdopt: break;
  }
}

void Run::turn(int index) {
  Node& at = node(index);
  while (at.state == State::kRunning && !at.working && !at.paused && checker_.violation().empty()) {
    if (at.call.phase() == CallPhase::kClosed) enter_call(index);
    if (index == 0) {
      if (at.call.all_ready()) {
        say("all stages are ready for call ", at.calls);
        at.call.open();
      }
      if (at.call.phase() == CallPhase::kOpen) offer_passes();
      look_at_other_clusters();
    }
    const std::optional<Work> work = at.stage.next();
    if (!work) {
      if (index > 0 || !call_is_done()) return;
      if (!averages_before_the_end()) end_call();
      continue;
    }
    ++outcome_.works;
    if (tell_) {
      say("stage ", index, " begins the ", in_words(*work), ", at version ", at.stage.updates());
    }
    checker_.begins(index, *work);
    if (work->head.round > 0 && index == 0 && work->kind == WorkKind::kForward) {
      checker_.enters(work->head.round, at.stage.rounds().round_samples());
    }
    if (work->gives > 0 && sabotaged(Sabotage::kGivesTooSoon, index)) give(index, work->gives);
    if (work->checkpoint > 0 && sabotaged(Sabotage::kSnapshotTooSoon, index))
      checker_.takes_snapshot(index, work->checkpoint);
    at.working = true;
    at.work = *work;
    const Time most = work->kind == WorkKind::kAnswer ? 0 : habits(index).work_most;
    network_.after(choices_.pick(most),
                   {.kind = EventKind::kWorked, .to = index, .from = index, .number = 0, .head = {}});
  }
}

void Run::enter_call(int index) {
  Node& at = node(index);
  checker_.call_entered(index);
  at.call.begin({}, at.stage.passes_begun());
  if (index > 0) send(EventKind::kReady, index, 0, 0, Lane::kUrgent);
}

void Run::advance_call(int index) {
  Node& at = node(index);
  if (index == 0) {
    if (at.call.all_accounted()) close_call();
    return;
  }
  if (at.call.phase() == CallPhase::kOver && at.stage.settled()) {
    say("stage ", index, " ends call ", at.calls);
    checker_.call_over(index);
    (void)at.call.take_task();
    (void)at.call.give_account({});
    send(EventKind::kAccount, index, 0, 0, Lane::kUrgent);
  }
}

void Run::leave_call(int index) {
  Node& at = node(index);
  say("stage ", index, " leaves call ", at.calls);
  checker_.call_closed(index, at.calls);
  if (++at.calls == scenario_.calls.size()) return leave(index, State::kLeft);
  pause(index);
}

void Run::pause(int index) {
  if (habits(index).pause_most == 0) return;
  node(index).paused = true;
  network_.after(choices_.pick(habits(index).pause_most),
                 {.kind = EventKind::kResumed, .to = index, .from = index, .number = 0, .head = {}});
}

void Run::offer_passes() {
  Stage& root = node(0).stage;
  while (!offers_pause_ && offered_ < offers().size() && root.waiting() < scenario_.offered_ahead) {
    root.offer(offers()[offered_++]);
    if (scenario_.offer_pause_most == 0 || !choices_.chance(20)) continue;
    offers_pause_ = true;
    network_.after(choices_.pick(scenario_.offer_pause_most),
                   {.kind = EventKind::kResumed, .to = 0, .from = 0, .number = 1, .head = {}});
  }
}

bool Run::call_is_done() {
  const Stage& root = node(0).stage;
  if (node(0).call.phase() != CallPhase::kOpen) return false;
  const bool reported = scenario_.count() == 1 || reports_ == root.passes_begun();
  return offered_ == offers().size() && root.idle() && reported;
}

void Run::end_call() {
  Node& root = node(0);
  say("the root ends call ", root.calls);
  checker_.call_over(0);
  root.call.finish({}, /*goes_on=*/false);
  const wire::Over over = root.call.end(root.stage.passes_begun());
  for (int other = 1; other < scenario_.count(); ++other) send(EventKind::kOver, 0, other, over.passes, Lane::kUrgent);
  (void)root.call.take_task();
  (void)root.call.give_account({});
  for (int other = 1; other < scenario_.count() && sabotage_ == Sabotage::kClosesAlone; ++other)
    (void)root.call.on_account(other, {});
  advance_call(0);
}

void Run::close_call() {
  (void)node(0).call.close({});
  for (int other = 1; other < scenario_.count(); ++other) send(EventKind::kClosed, 0, other, 0, Lane::kUrgent);
  offered_ = 0;
  averaged_at_end_ = false;
  leave_call(0);
}

}  // namespace ravnest::stage::simulation
