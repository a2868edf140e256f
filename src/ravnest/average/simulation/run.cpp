#include "ravnest/average/simulation/run.h"

#include <utility>

namespace ravnest::average::simulation {

namespace {

constexpr std::uint64_t kMostEvents = 30'000;
constexpr Time kPatience = 4000;  // longer than anything takes to be heard of

std::string in_words(const std::vector<wire::Participant>& participants) {
  std::string words;
  for (const wire::Participant& participant : participants)
    words += text(" ", participant.cluster, "=", participant.weight);
  return words;
}

std::string in_words(const ClusterState& state) {
  std::string words =
      text("round ", state.round, " attempt ", state.attempt, " leader ", state.leader, state.entered ? " entered" : "",
           state.finished ? " finished" : "", state.newcomer ? " newcomer" : "", state.complete ? " complete" : "");
  if (state.checkpoint > 0 || state.checkpoint_due)
    words += text(" checkpoint ", state.checkpoint, state.checkpoint_due ? " due" : "");
  if (!state.missing.empty()) words += text(" missing ", join(state.missing));
  if (!state.companions.empty()) words += text(" companions ", join(state.companions));
  return words;
}
std::string in_words(const Attempt& attempt) {
  return text("begin attempt ", attempt.attempt, " of round ", attempt.round, " with", in_words(attempt.participants),
              attempt.last ? " last" : "", attempt.whole ? " whole" : "",
              attempt.checkpoint > 0 ? text(" checkpoint ", attempt.checkpoint) : std::string(),
              attempt.checkpoint_next ? " checkpoint next" : "");
}
std::string in_words(const wire::CommitAttempt& commit) {
  return text("commit attempt ", commit.attempt, " of round ", commit.round);
}
std::string in_words(const wire::CallRound& call) { return text("call round ", call.round); }
std::string in_words(const wire::SendOut& out) {
  return text("out at round ", out.round, " attempt ", out.attempt, out.alone ? " alone" : "");
}
std::string in_words(const wire::AttemptComplete& complete) { return text("complete attempt ", complete.attempt); }
std::string in_words(const wire::ClusterMissing& missing) {
  return text("missing ", missing.cluster, " in attempt ", missing.attempt);
}

std::string in_words(const wire::Averaging& message) {
  return std::visit([](const auto& each) { return in_words(each); }, message);
}

std::uint64_t attempt_of(const wire::Averaging& message) {
  return std::visit(
      [](const auto& each) -> std::uint64_t {
        if constexpr (requires { each.attempt; }) return each.attempt;
        return 0;
      },
      message);
}

}  // namespace

Run::Run(std::uint64_t seed, const Tell& tell, Sabotage sabotage)
    : tell_(tell),
      sabotage_(sabotage),
      chance_(seed),
      parted_(chance_.percent(25)),
      checkpoints_(chance_.percent(60)),
      drains_(chance_.percent(50)),
      clusters_(chance_.pick(1, 6)),
      network_(static_cast<int>(clusters_.size()), chance_),
      checker_(static_cast<int>(clusters_.size()), parted_),
      paths_(clusters_.size() * clusters_.size()) {
  const bool late = chance_.percent(30);
  for (int i = 0; i < count(); ++i) {
    cluster(i).pace = chance_.pick(1, 300);
    network_.after(chance_.pick(0, late && chance_.percent(40) ? 8000 : 200), {EventKind::kStart, i});
  }
  draw_faults();
}

SimulationOutcome Run::run() {
  while (auto event = network_.next()) {
    if (++outcome_.events > kMostEvents) checker_.violated("it never ends");
    if (!checker_.violation().empty()) break;
    if (event->incarnation != 0 && event->incarnation != cluster(event->to).incarnation) continue;
    happens(*event);
  }
  if (checker_.violation().empty()) check_the_end();
  outcome_.violation = checker_.violation();
  if (!outcome_.violation.empty()) say("BROKEN: ", outcome_.violation);
  outcome_.clusters = count();
  outcome_.digest = digest_;
  outcome_.attempts = checker_.attempts();
  outcome_.newcomers = checker_.newcomers();
  return outcome_;
}

void Run::happens(const Event& event) {
  mix(network_.now() * 16 + static_cast<std::uint64_t>(event.kind));
  Cluster& at = cluster(event.to);
  if (!at.agreement && event.kind != EventKind::kStart && event.kind != EventKind::kPart &&
      event.kind != EventKind::kJoin) {
    return;
  }
  switch (event.kind) {
    case EventKind::kMessage:
      if (!network_.arrives(event)) return;
      if (tell_) say(event.to, " hears from ", event.from, ": ", in_words(event.message));
      if (chance_.percent(3)) inject_misfit(event.to, event.from);
      return carry_out(event.to, at.agreement->on_message(event.from, event.message));
    case EventKind::kUp:
    case EventKind::kDown:
      if (!network_.arrives(event)) return;
      say(event.to, event.kind == EventKind::kUp ? " finds " : " has lost ", event.from);
      carry_out(event.to, at.agreement->on_peer(event.from, event.kind == EventKind::kUp));
      if (sabotage_ != Sabotage::kDoesNotWait || !at.agreement) return;
      return carry_out(event.to, at.agreement->begin_without_the_unseen());
    case EventKind::kStart: return start(event.to);
    case EventKind::kCrash:
      if (crashes_left_ > 0) crash(event.to);
      return;
    case EventKind::kLeave:
      if (at.done) leave(event.to);
      return;
    case EventKind::kTrained:
      if (event.number == at.trains) trained(event.to);
      return;
    case EventKind::kResume:
      if (!at.agreement->finished() || at.done) return;
      say(event.to, " trains on");
      at.rounds_left = 1;
      at.changed = true;
      train(event.to, at.pace);
      return carry_out(event.to, at.agreement->resume());
    case EventKind::kResult: return result(event.to, event.number);
    case EventKind::kUnreached:
      if (event.number != at.attempt) return;
      say(event.to, " does not reach ", event.from, " in attempt ", event.number);
      return carry_out(event.to, at.agreement->missing(event.from));
    case EventKind::kPatience:
      if (event.number != at.patience) return;
      say(event.to, " has waited long enough");
      return carry_out(event.to, at.agreement->begin_without_the_unseen());
    case EventKind::kPart: return part(event.to, event.from);
    case EventKind::kJoin: return heal(event.to, event.from);
  }
}

// A commit that comes too early, or from someone who is not the leader, an attempt that is over, and numbers that no
// run reaches.
void Run::inject_misfit(int index, int from) {
  Cluster& hearing = cluster(index);
  wire::Averaging misfit;
  const std::uint64_t round = hearing.agreement->round();
  const bool complete = hearing.attempt != 0 && checker_.ring(hearing.attempt).parts[index].complete;
  const bool from_leader = from == hearing.agreement->leader();
  const auto beyond = [&] { return ~chance_.pick(0, 1000); };
  switch (chance_.pick_int(0, 4)) {
    case 0:
      if (hearing.attempt == 0 || (complete && from_leader)) return;
      misfit = wire::CommitAttempt{.round = round, .attempt = hearing.attempt};
      break;
    case 1:
      misfit = Attempt{
          .round = round, .attempt = hearing.attempt, .participants = {{static_cast<std::uint32_t>(index), 1.0}}};
      break;
    case 2:
      misfit = Attempt{.round = round, .attempt = beyond(), .participants = {{static_cast<std::uint32_t>(index), 1.0}}};
      break;
    case 3:
      misfit = chance_.percent(50) ? ClusterState{.round = round, .attempt = beyond()}
                                   : ClusterState{.round = beyond(), .attempt = hearing.attempt};
      break;
    default:
      if (from_leader) return;
      misfit = wire::SendOut{.round = round, .attempt = hearing.attempt, .alone = false};
  }
  ++outcome_.misfits;
  const std::uint64_t ignored = hearing.agreement->ignored();
  const Agreement::Actions actions = hearing.agreement->on_message(from, misfit);
  if (!actions.empty() || hearing.agreement->ignored() != ignored + 1) {
    checker_.violated("cluster ", index, " takes a message of cluster ", from,
                      " that does not fit: ", in_words(misfit));
  }
}

// -- the owner of an agreement

void Run::start(int index) {
  Cluster& starting = cluster(index);
  if (starting.agreement) return;
  starting.agreement.emplace(index, count());
  outcome_.returns += ++starting.incarnation > 1 ? 1 : 0;
  say(index, " starts");
  checker_.starts(index, starting.incarnation);
  starting.model = 1;
  starting.attempt = 0;
  starting.done = starting.hastened = starting.for_checkpoint = starting.changed = false;
  starting.capture = {};
  starting.capture_after.reset();
  starting.rounds_left = chance_.pick_int(0, 4);
  train(index, starting.pace);
  wait_again(index);
  for (int other = 0; other < count(); ++other) {
    if (other != index) join(index, other);
  }
  if (count() == 1) carry_out(index, {});
}

void Run::wait_again(int index) {
  Cluster& waiting = cluster(index);
  waiting.changes = waiting.agreement->changes();
  network_.after(kPatience, {EventKind::kPatience, index, 0, ++waiting.patience, waiting.incarnation});
}

void Run::train(int index, Time longest) {
  Cluster& training = cluster(index);
  network_.after(chance_.pick(1, longest), {EventKind::kTrained, index, 0, ++training.trains, training.incarnation});
}

double Run::draw_weight(int index) { return chance_.percent(10) ? 0 : 1.5 + cluster(index).weights++; }

// In the middle of training a cluster can make none, unless it was told to.
Capture Run::draw_capture(int index, bool finishes) {
  Cluster& entering = cluster(index);
  Capture capture;
  const bool can = drains_ || finishes || entering.for_checkpoint;
  if (checkpoints_ && can) capture.number = 1 + static_cast<std::uint64_t>(entering.weights);
  capture.due = checkpoints_ && (entering.for_checkpoint || chance_.percent(20));
  entering.for_checkpoint = false;
  entering.capture = capture;
  return capture;
}

void Run::trained(int index) {
  Cluster& trained = cluster(index);
  if (trained.agreement->finished()) return;
  if (trained.agreement->entered()) {
    say(index, " has finished meanwhile");
    trained.rounds_left = 0;
    const double weight_after = draw_weight(index);
    const Capture before = trained.capture;
    trained.capture_after = draw_capture(index, /*finishes=*/true);
    trained.capture = before;
    return carry_out(index, trained.agreement->finish(weight_after, *trained.capture_after));
  }
  trained.model = mixed(trained.model, network_.now() * 8 + static_cast<std::uint64_t>(index));
  trained.entered = trained.model;
  const double weight = draw_weight(index);
  if (trained.rounds_left > 0) {
    say(index, " enters with ", weight);
    if (trained.rounds_left == 1 && chance_.percent(30)) train(index, trained.pace);
    return carry_out(index, trained.agreement->enter(weight, draw_capture(index, /*finishes=*/false)));
  }
  say(index, " has finished, with ", weight);
  if (chance_.percent(5)) network_.after(chance_.pick(1, 300), {EventKind::kResume, index, 0, 0, trained.incarnation});
  carry_out(index, trained.agreement->finish(weight, draw_capture(index, /*finishes=*/true)));
}

// A crash may come between any two things that it does.
void Run::carry_out(int index, const Agreement::Actions& actions) {
  Cluster& acting = cluster(index);
  for (const Agreement::Action& action : actions) {
    if (crashes_left_ > 0 && chance_.pick(0, 999) < crash_chance_) {
      crash(index);
      if (chance_.percent(20)) crash(chance_.pick_int(0, count() - 1));
      return;
    }
    if (const auto* message = std::get_if<Agreement::Send>(&action)) {
      send(index, *message);
    } else if (const auto* begun = std::get_if<Agreement::Begin>(&action)) {
      begin(index, begun->attempt);
    } else if (const auto* held = std::get_if<Agreement::Holds>(&action)) {
      hold(index, *held);
    } else {
      say(index, " is out");
      ++outcome_.outs;
      acting.attempt = 0;
      acting.done = false;
      if (acting.capture_after) acting.capture = *std::exchange(acting.capture_after, std::nullopt);
      if (!acting.agreement->finished()) train(index, 20);
    }
  }
  if (acting.agreement->changes() != acting.changes) wait_again(index);
  if (acting.agreement->called() && !acting.hastened && !acting.agreement->entered()) {
    acting.hastened = true;
    train(index, 10);
  }
}

void Run::send(int index, const Agreement::Send& send) {
  wire::Averaging message = send.message;
  if (auto* state = std::get_if<ClusterState>(&message)) {
    if (sabotage_ == Sabotage::kClaimsCompletion && !state->companions.empty()) state->complete = true;
    if (sabotage_ == Sabotage::kCountsNewcomers && state->newcomer) {
      state->newcomer = false;
      state->weight = 0.5;
    }
    if (sabotage_ == Sabotage::kClaimsSnapshots && state->checkpoint == 0) state->checkpoint = 1;
  }
  ++outcome_.messages;
  mix(static_cast<std::uint64_t>(send.to) * 8 + message.index() + attempt_of(message) * 64);
  network_.send(index, send.to, message);
}

void Run::begin(int index, const Attempt& attempt) {
  Cluster& beginning = cluster(index);
  if (tell_) {
    say(index, " begins attempt ", attempt.attempt, " of round ", attempt.round, " with",
        in_words(attempt.participants));
  }
  beginning.attempt = attempt.attempt;
  Ring::Part part;
  part.model = beginning.entered;
  part.newcomer = beginning.agreement->newcomer();
  part.capture = beginning.capture;
  part.changed = beginning.changed;
  if (checker_.begins(index, attempt, part)) start_ring(attempt);
}

// Where two do not reach each other one of them, or both, find out, and the others may have the result or not.
void Run::start_ring(const Attempt& attempt) {
  bool broken = false;
  const auto tell = [&](int to, int of) {
    network_.after(chance_.pick(1, 60), {EventKind::kUnreached, to, of, attempt.attempt, cluster(to).incarnation});
  };
  for (const wire::Participant& one : attempt.participants) {
    for (const wire::Participant& other : attempt.participants) {
      const int a = static_cast<int>(one.cluster);
      const int b = static_cast<int>(other.cluster);
      if (a >= b || !path(a, b).unreached) continue;
      broken = true;
      const int who = chance_.pick_int(0, 2);
      if (who != 0) tell(a, b);
      if (who != 1) tell(b, a);
    }
  }
  for (const wire::Participant& participant : attempt.participants) {
    const int to = static_cast<int>(participant.cluster);
    if (broken && chance_.percent(70)) continue;
    if (sabotage_ == Sabotage::kLosesResults && chance_.percent(20)) continue;
    network_.after(chance_.pick(1, 200), {EventKind::kResult, to, 0, attempt.attempt, cluster(to).incarnation});
  }
}

void Run::result(int index, std::uint64_t attempt) {
  if (attempt != cluster(index).attempt) return;
  bool all_alive = true;
  for (const auto& [participant, part] : checker_.ring(attempt).parts)
    all_alive = all_alive && checker_.alive(participant, part.incarnation);
  if (!all_alive && chance_.percent(50)) return;
  say(index, " has the result of attempt ", attempt);
  checker_.completes(index, attempt);
  carry_out(index, cluster(index).agreement->complete(attempt));
}

void Run::hold(int index, const Agreement::Holds& holds) {
  Cluster& holding = cluster(index);
  say(index, " holds round ", holds.round, holds.last ? ", the last" : "");
  ++outcome_.commits;
  holding.model = checker_.holds(index, holding.attempt, holds);
  holding.entered = holding.model;
  outcome_.rounds = std::max(outcome_.rounds, checker_.rounds(index));
  const Attempt& attempt = checker_.ring(holding.attempt).attempt;
  if (holding.capture_after) holding.capture = *std::exchange(holding.capture_after, std::nullopt);
  if (attempt.checkpoint > 0) {
    ++outcome_.checkpoints;
    holding.capture.due = false;
  }
  holding.for_checkpoint = attempt.checkpoint_next;
  holding.changed = false;
  holding.attempt = 0;
  holding.hastened = false;
  holding.rounds_left = std::max(0, holding.rounds_left - 1);
  if (!holding.agreement->finished()) return train(index, holding.pace);
  if (!holds.last) return;
  holding.done = true;
  if (chance_.percent(30)) network_.after(chance_.pick(0, 1000), {EventKind::kLeave, index, 0, 0, holding.incarnation});
}

void Run::check_the_end() {
  for (int i = 0; i < count(); ++i) {
    if (!cluster(i).agreement) continue;
    const Agreement& agreement = *cluster(i).agreement;
    outcome_.ignored += agreement.ignored();
    if (!cluster(i).done) {
      checker_.violated("cluster ", i, " waits for ever for round ", agreement.round(), ", with ", agreement.leader(),
                        " as its leader, for ", ravnest::join(agreement.waiting_for()));
    }
  }
  checker_.all_is_quiet();
}

}  // namespace ravnest::average::simulation
