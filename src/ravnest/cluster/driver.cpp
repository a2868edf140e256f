#include "ravnest/cluster/driver.h"

#include <algorithm>
#include <exception>

#include "ravnest/base/check.h"

namespace ravnest::cluster {
namespace {

using stage::CallPhase;
using std::chrono::milliseconds;
using transport::PeerState;
using wire::Message;

// Between two looks at what may have happened without an event.
constexpr Duration kLongestWait = milliseconds(500);

}  // namespace

Driver::Driver(DriverOptions options, transport::Endpoint& endpoint, worker::Worker& worker)
    : options_(std::move(options)),
      endpoint_(endpoint),
      worker_(worker),
      stage_(options_.stage),
      call_(options_.stage.index, options_.stage.count),
      rounds_(options_.averaging, stage_, call_, options_.capture),
      ending_(options_.stage.index, options_.stage.count),
      outbox_(endpoint, transport::Channel::kTraining) {
  for (std::size_t i = 0; i < options_.nodes.size(); ++i) stage_of_[options_.nodes[i]] = static_cast<int>(i);
}

// -- the compute thread

Result<wire::Closed> Driver::run(wire::Ready ready, bool trains) {
  auto closed = run_call(std::move(ready), trains);
  // Others did not hear that this stage could not be saved, or not in time: its own user has to.
  if (const wire::Account* own = call_.account(); !closed.ok() && own != nullptr && own->unsaved)
    closed = Status(closed.status().code(), text(closed.status().message(), "; and ", *own->unsaved));
  {
    const MutexLock lock(mutex_);
    if (!closed.ok()) failure_ = closed.status();
    last_round_ = LastRound::kNotAsked;
  }
  publish();
  return closed;
}

Result<wire::Closed> Driver::run_call(wire::Ready ready, bool trains) {
  if (ending_.begun()) return end_alike();
  call_.begin(ready, stage_.passes_begun(), trains);
  rounds_.begin_call();
  if (!stage_.is_root()) {
    if (Status sent = send(0, std::move(ready)); !sent.ok()) fail_here(sent);
  }
  // One turn: take what has come and what was asked, then do one work, or look at the call where there is none.
  for (;;) {
    receive_all();  // first: it takes interruptions too, and what those are about is looked at after it
    take_requests();
    if (Status looked = rounds_.look(); !looked.ok()) fail_here(looked);
    if (Status sent = send_posted(); !sent.ok()) fail_here(sent);
    if (Status flushed = outbox_.flush(); !flushed.ok()) fail_here(flushed);
    // A failed run computes no more, with one exception: where its passes were all done, the weights are saved.
    if (ending_.begun()) {
      tell_of_the_end();
      do_task_alone();
      return end_alike();
    }
    // Work before the call: while there is some, others wait for what it makes, and nothing can be over.
    if (const auto work = stage_.next()) {
      static_cast<void>(perform(*work));
      publish();
      continue;
    }
    publish();
    if (Status advanced = advance_call(); !advanced.ok()) fail_here(advanced);
    if (call_.closed()) return *call_.closed();
    if (!ending_.begun()) wait();
  }
}

void Driver::take_requests() {
  std::optional<std::string> stop;
  {
    const MutexLock lock(mutex_);
    // Users may ask before the call is open here: their requests wait for it. Those that come when it is over wait for
    // the next one; a pass that was begun now would come to stages that are through.
    const bool may_begin = call_.phase() == CallPhase::kOpen || call_.phase() == CallPhase::kFinishing;
    while (may_begin && !requests_.empty()) {
      stage_.offer(requests_.front().first);
      offered_inputs_.push_back(std::move(requests_.front().second));
      requests_.pop_front();
    }
    RAVNEST_CHECK(offered_inputs_.size() >= stage_.waiting(), "stage ", own_index(), " waits to begin ",
                  stage_.waiting(), " passes with the inputs of ", offered_inputs_.size());
    if (may_begin && std::exchange(average_, false)) stage_.average();
    if (may_begin && last_round_ == LastRound::kAsked) rounds_.end_with_the_last();
    if (call_.phase() == CallPhase::kOpen && finish_) {
      call_.finish(std::move(finish_->first), finish_->second);
      finish_.reset();
    }
    stop = stop_;
  }
  if (stop) fail({.stage = static_cast<std::uint32_t>(options_.stage.index), .lost = false, .reason = *stop});
}

void Driver::receive_all() {
  for (;;) {
    auto event = endpoint_.receive(TimePoint());
    if (!event.ok()) {
      // Nothing is there, or somebody has interrupted: both are looked at next.
      if (event.status().code() == Code::kCancelled) fail_here(event.status());
      return;
    }
    handle(std::move(*event));
  }
}

void Driver::wait() {
  auto event = endpoint_.receive(clock_.now() + kLongestWait);
  if (event.ok()) handle(std::move(*event));
  fail_for_leavers();
}

void Driver::handle(transport::Event event) {
  const auto found = stage_of_.find(event.peer);
  if (found == stage_of_.end()) return handle_elsewhere(std::move(event));
  const int from = found->second;
  if (const auto* change = std::get_if<transport::PeerChange>(&event.what)) return handle(from, *change);
  Status taken = handle(from, std::move(std::get<Message>(event.what)));
  if (!taken.ok()) fail_here(taken.with_context(text("a message from ", event.peer, " does not fit")));
}

// Of another cluster: what is not said of checkpoints is the averager's business.
void Driver::handle_elsewhere(transport::Event event) {
  if (const auto* change = std::get_if<transport::PeerChange>(&event.what)) {
    const bool gone = change->state == PeerState::kLost || change->state == PeerState::kLeft;
    if (gone && options_.on_gone_elsewhere) options_.on_gone_elsewhere(event.peer);
    return;
  }
  auto* checkpointing = std::get_if<wire::Checkpointing>(&std::get<Message>(event.what));
  if (checkpointing == nullptr || !options_.on_other_cluster) return;
  if (Status taken = options_.on_other_cluster(event.peer, std::move(*checkpointing)); !taken.ok()) fail_here(taken);
}

void Driver::handle(int from, const transport::PeerChange& change) {
  switch (change.state) {
    case PeerState::kLost:
      // Final: the session has given up, and what was on its way is gone. A pass can't be made up for by others.
      options_.log.warning(options_.nodes[static_cast<std::size_t>(from)], ": ", change.reason);
      ending_.on_gone(from);
      return fail({.stage = static_cast<std::uint32_t>(from), .lost = true, .reason = "was lost"});
    case PeerState::kLeft:
      // Others may know before this stage does that the run is over.
      ending_.on_gone(from);
      left_.emplace(from, clock_.now());
      return;
    case PeerState::kUp:
      seen_.insert(from);
      left_.erase(from);
      return;
    case PeerState::kWaiting:
    case PeerState::kSlow:
    case PeerState::kDown: return;  // for a while: the session brings it back, or says that it is lost
  }
}

// The state machines are asked before the inbox keeps anything: what does not fit takes no memory.
Status Driver::handle(int from, Message message) {
  if (auto* forward = std::get_if<wire::Forward>(&message)) {
    if (forward->stage != static_cast<std::uint32_t>(from)) return invalid("it speaks for stage ", forward->stage);
    if (Status status = call_.admits_pass(); !status.ok()) return status;
    if (Status status = stage_.on_forward(from, forward->head); !status.ok()) return status;
    inbox_.add(std::move(*forward));
  } else if (auto* backward = std::get_if<wire::Backward>(&message)) {
    if (backward->stage != static_cast<std::uint32_t>(from)) return invalid("it speaks for stage ", backward->stage);
    if (Status status = stage_.on_backward(from, backward->pass); !status.ok()) return status;
    inbox_.add(std::move(*backward));
  } else if (auto* tied = std::get_if<wire::TiedTensors>(&message)) {
    Status status =
        tied->gradients ? stage_.on_tied_gradients(from, tied->number) : stage_.on_tied_values(from, tied->number);
    if (!status.ok()) return status;
    inbox_.add(from, std::move(*tied));
  } else if (auto* report = std::get_if<wire::Report>(&message)) {
    if (!stage_.is_root() || from != options_.stage.count - 1) return invalid("only the leaf reports, to the root");
    take_report(std::move(*report));
  } else if (auto* ready = std::get_if<wire::Ready>(&message)) {
    return call_.on_ready(from, std::move(*ready));
  } else if (auto* over = std::get_if<wire::Over>(&message)) {
    return call_.on_over(from, std::move(*over), stage_.passes_done());
  } else if (auto* account = std::get_if<wire::Account>(&message)) {
    return call_.on_account(from, std::move(*account));
  } else if (auto* closed = std::get_if<wire::Closed>(&message)) {
    return call_.on_closed(from, std::move(*closed));
  } else if (auto* checkpointing = std::get_if<wire::Checkpointing>(&message)) {
    if (!options_.on_checkpointing || (!stage_.is_root() && from != 0))
      return invalid("it speaks of checkpoints, which are none of its business");
    return options_.on_checkpointing(from, std::move(*checkpointing));
  } else if (const auto* failed = std::get_if<wire::Failed>(&message)) {
    if (failed->stage >= static_cast<std::uint32_t>(options_.stage.count)) return invalid("it tells of no stage");
    if (auto tell = ending_.on_failed(from, *failed)) untold_ = std::move(tell);
  }
  return {};
}

Status Driver::send(int stage, wire::Message message) {
  return outbox_.send(options_.nodes[static_cast<std::size_t>(stage)], std::move(message));
}

Status Driver::send_to_others(const wire::Message& message) {
  for (int stage = 0; stage < options_.stage.count; ++stage) {
    if (stage == options_.stage.index) continue;
    if (Status sent = send(stage, message); !sent.ok()) return sent;
  }
  return {};
}

void Driver::take_report(wire::Report report) {
  ++reports_;
  if (options_.on_report) options_.on_report(std::move(report));
}

// Whether the work is done; otherwise the run fails.
bool Driver::perform(const stage::Work& work) {
  const TimePoint start = clock_.now();
  if (!began_) began_ = start;
  if (work.kind == stage::WorkKind::kForward) {
    if (stage_.is_root() && work.head.kind == wire::PassKind::kTrain) call_.train();
    rounds_.on_begin(work.head);  // first: a round is entered before anything is given to it
  }
  auto outgoing = [&]() -> Result<std::vector<worker::Outgoing>> {
    try {
      return compute(work);
    } catch (const std::exception& error) {
      return internal(error.what());
    }
  }();
  if (!outgoing.ok()) {
    broken_ = true;
    fail_here(outgoing.status());
    return false;
  }
  // Said before anything is sent: when an answer has arrived, its pass is done here, which is what lets the root
  // conclude from its answers that a call is over.
  stage_.done(work);
  for (worker::Outgoing& each : *outgoing) {
    if (each.stage == options_.stage.index) {  // a cluster of one stage reports to itself
      take_report(std::get<wire::Report>(std::move(each.message)));
    } else if (Status sent = send(each.stage, std::move(each.message)); !sent.ok()) {
      fail_here(sent);
      return false;
    }
  }
  const double taken = seconds_between(start, clock_.now());
  switch (work.kind) {
    case stage::WorkKind::kForward: own_.forward_s += taken; break;
    case stage::WorkKind::kBackward: own_.backward_s += taken; break;
    case stage::WorkKind::kAnswer: break;
    case stage::WorkKind::kUpdate:
    case stage::WorkKind::kAverage:
    case stage::WorkKind::kAdopt: own_.update_s += taken; break;
  }
  return true;
}

Result<std::vector<worker::Outgoing>> Driver::compute(const stage::Work& work) {
  switch (work.kind) {
    case stage::WorkKind::kForward: {
      std::vector<wire::Forward> parts = inbox_.take_forwards(work.head.pass);
      if (work.head.kind == wire::PassKind::kAverage) return give(work);
      if (work.head.kind == wire::PassKind::kSnapshot) return take_snapshot(work);
      if (stage_.is_root()) {
        RAVNEST_CHECK(!offered_inputs_.empty(), "pass ", work.head.pass, " begins, and no inputs were offered for it");
        parts.push_back(
            {.head = work.head, .stage = 0, .tensors = {}, .model_inputs = std::move(offered_inputs_.front())});
        offered_inputs_.pop_front();
      }
      return worker_.forward(work.head, std::move(parts));
    }
    case stage::WorkKind::kBackward: {
      std::vector<wire::TiedTensors> tied;
      if (stage_.ties_pass_by_pass()) tied = inbox_.take_tied_gradients(work.head.pass);
      return worker_.backward(work.head, inbox_.take_backwards(work.head.pass), std::move(tied));
    }
    case stage::WorkKind::kAnswer: {
      std::vector<worker::Outgoing> answers;
      inbox_.take_backwards(work.head.pass);  // which say that consumers are through, and hold nothing
      for (const int producer : stage_.neighbours(work.head.kind).producers) {
        answers.push_back({producer, wire::Backward{work.head.pass, own_index(), {}}});
      }
      return answers;
    }
    case stage::WorkKind::kUpdate: {
      std::vector<wire::TiedTensors> tied;
      if (!stage_.ties_pass_by_pass()) tied = inbox_.take_tied_gradients(work.number);
      // Step, take in, give, in this order: what the stage learned since the last round is in what it gives to this
      // one.
      return worker_.update({work.number, /*steps=*/true, work.takes, work.gives, work.checkpoint}, std::move(tied));
    }
    case stage::WorkKind::kAverage:
      return worker_.update({work.number, /*steps=*/false, work.takes, 0, work.checkpoint}, {});
    case stage::WorkKind::kAdopt: {
      if (Status adopted = worker_.adopt(inbox_.take_tied_values(work.from)); !adopted.ok()) return adopted;
      return std::vector<worker::Outgoing>();
    }
  }
  return internal("unknown work");
}

Result<std::vector<worker::Outgoing>> Driver::give(const stage::Work& work) {
  if (Status given = worker_.give(work.head.round, work.takes); !given.ok()) return given;
  return pass_on(work);
}

Result<std::vector<worker::Outgoing>> Driver::take_snapshot(const stage::Work& work) {
  if (stage_.is_root()) offered_inputs_.pop_front();  // it has none
  if (Status taken = worker_.snapshot(work.head.checkpoint); !taken.ok()) return taken;
  return pass_on(work);
}

// A pass without tensors.
std::vector<worker::Outgoing> Driver::pass_on(const stage::Work& work) {
  std::vector<worker::Outgoing> outgoing;
  for (const int consumer : stage_.neighbours(work.head.kind).consumers) {
    outgoing.push_back({consumer, wire::Forward{work.head, own_index(), {}, {}}});
  }
  if (stage_.is_root()) ++reports_;  // the leaf sends none, and `computed` counts one per pass
  return outgoing;
}

void Driver::publish() {
  own_.counts = stage_.counts();
  if (began_) own_.running_s = seconds_between(*began_, clock_.now());
  std::vector<std::string> waiting = missing();
  {
    const MutexLock lock(mutex_);
    published_ = own_;
    waiting_for_ = std::move(waiting);
    // What was asked since the last turn counts as well: who asked must not be told that it is done.
    unbegun_ = stage_.waiting() + requests_.size();
    drained_ = requests_.empty() && !average_ && stage_.idle() && reports_ >= stage_.passes_begun();
    // Users wait until the weights contain so many: what was reached once stays reached.
    RAVNEST_CHECK(stage_.updates_contained() >= updates_contained_, "stage ", own_index(), " contains ",
                  stage_.updates_contained(), " updates, after ", updates_contained_);
    updates_contained_ = stage_.updates_contained();
  }
  changed_.notify_all();
}

}  // namespace ravnest::cluster
