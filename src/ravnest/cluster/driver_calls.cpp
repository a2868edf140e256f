// How a driver's calls and its run end.
#include <exception>
#include <utility>

#include "ravnest/cluster/driver.h"

namespace ravnest::cluster {
namespace {

using stage::CallPhase;
using transport::PeerState;
using wire::Message;

// For others to tell why the run failed, and for a stage that left to have meant it.
constexpr Duration kSettleTime = std::chrono::seconds(3);

}  // namespace

// What there is to do for the call when there is nothing to compute.
Status Driver::advance_call() {
  try {
    return stage_.is_root() ? lead_call() : follow_call();
  } catch (const std::exception& error) {
    return internal(error.what());
  }
}

// The root ends a call when it has all answers, but an answer is sent before the update that follows it, and tied
// weights come later still: what the task is about, the stage's weights, is there when it is settled.
Status Driver::follow_call() {
  if (call_.phase() != CallPhase::kOver || !stage_.settled()) return {};
  return account_for();
}

// Root: all that was offered is computed everywhere and reported.
bool Driver::computed() const { return stage_.idle() && reports_ >= stage_.passes_begun(); }

// Root: nothing is left that any stage would have to compute before it does the call's task.
bool Driver::may_end_call() {
  return call_.phase() == CallPhase::kFinishing && computed() && rounds_.let_the_call_end();
}

Status Driver::lead_call() {
  if (call_.all_ready()) {
    if (options_.on_open) {
      if (Status agreed = options_.on_open(call_.ready()); !agreed.ok()) return agreed;
    }
    call_.open();
    endpoint_.interrupt();  // there may be requests
  }
  if (rounds_.ends_with_the_last() && computed() && rounds_.let_the_call_end()) {
    const MutexLock lock(mutex_);
    if (requests_.empty() && std::exchange(last_round_, LastRound::kHolds) != LastRound::kHolds) changed_.notify_all();
  }
  if (may_end_call()) {
    if (options_.on_end) {
      if (Status filled = options_.on_end(call_.task()); !filled.ok()) return filled;
    }
    // Others first: they do the same at the same time.
    if (Status told = send_to_others(call_.end(stage_.passes_begun())); !told.ok()) return told;
    if (Status done = account_for(); !done.ok()) return done;
  }
  if (!call_.all_accounted()) return {};
  const wire::Closed closed = options_.on_accounts ? options_.on_accounts(call_.accounts()) : wire::Closed();
  // That a checkpoint is complete they hear before the call is closed: afterwards they may be gone.
  if (Status sent = send_posted(); !sent.ok()) return sent;
  return send_to_others(call_.close(closed));
}

Result<wire::Account> Driver::do_task() {
  const wire::Task task = call_.take_task();
  if (!options_.on_over) return wire::Account();
  return options_.on_over(task);
}

Status Driver::account_for() {
  auto done = do_task();
  if (!done.ok()) return done.status();
  // What the root is to know of this call comes before the account of it.
  if (Status sent = send_posted(); !sent.ok()) return sent;
  const wire::Account& account = call_.give_account(std::move(*done));
  return stage_.is_root() ? Status() : send(0, account);
}

Status Driver::send_posted() {
  std::deque<std::pair<std::string, wire::Checkpointing>> posted;
  {
    const MutexLock lock(mutex_);
    posted.swap(posted_);
  }
  for (auto& [node, checkpointing] : posted) {
    const bool own = node == options_.nodes[static_cast<std::size_t>(options_.stage.index)];
    Status sent = own && options_.on_checkpointing
                      ? options_.on_checkpointing(options_.stage.index, std::move(checkpointing))
                      : outbox_.send(node, std::move(checkpointing));
    if (!sent.ok()) return sent;
  }
  return {};
}

// Of passes that were begun: an update, mostly.
void Driver::do_what_is_left() {
  for (auto work = stage_.next(); work; work = stage_.next()) {
    if (!perform(*work)) return;
  }
  publish();
}

// The run fails, but its passes are done, and this stage knows: what they came to is not lost with the others. Nobody
// hears the account any more, but for this node's own user.
void Driver::do_task_alone() {
  if (!options_.on_over || broken_ || call_.phase() != CallPhase::kOver) return;
  try {
    do_what_is_left();
    if (broken_) return;
    if (auto done = do_task(); done.ok()) (void)call_.give_account(std::move(*done));
  } catch (const std::exception& error) {
    options_.log.error("what was left to do when training was over has failed: ", error.what());
  }
}

std::vector<std::string> Driver::missing() const {
  std::vector<std::string> names;
  if (stage_.is_root()) {
    if (call_.phase() != CallPhase::kReady) return rounds_.waiting_for();
    for (const int stage : call_.missing()) names.push_back(options_.nodes[static_cast<std::size_t>(stage)]);
    return names;
  }
  if (call_.phase() != CallPhase::kReady || stage_.passes_begun() > call_.passes_before()) return {};
  for (int stage = 0; stage < options_.stage.count; ++stage) {
    if (stage != options_.stage.index && !seen_.contains(stage))
      names.push_back(options_.nodes[static_cast<std::size_t>(stage)]);
  }
  if (names.empty()) names.push_back(options_.nodes.front());
  return names;
}

// Whoever leaves knows that the call is closed; so should everyone, soon. Its goodbye may overtake the root's word of
// that, which comes from another stage: so leaving is a failure only when it is not explained in time.
void Driver::fail_for_leavers() {
  for (const auto& [stage, when] : left_) {
    if (clock_.now() - when < kSettleTime) continue;
    return fail({.stage = static_cast<std::uint32_t>(stage), .lost = true, .reason = "left before the run was over"});
  }
}

// -- failure

void Driver::fail(wire::Failed reason) {
  if (auto tell = ending_.fail(std::move(reason))) untold_ = std::move(tell);
}

// Where training was over when it failed, the root says that first: who has heard all reasons listens no more.
void Driver::tell_of_the_end() {
  if (!untold_) return;
  if (call_.phase() == CallPhase::kFinishing && stage_.waiting() == 0 && !broken_) {
    do_what_is_left();
    if (may_end_call()) (void)send_to_others(call_.end(stage_.passes_begun()));
  }
  (void)send_to_others(*std::exchange(untold_, std::nullopt));
}

void Driver::fail_here(const Status& status) {
  fail({.stage = static_cast<std::uint32_t>(options_.stage.index),
        .lost = false,
        .reason = text("failed: ", status.message())});
}

Status Driver::end_alike() {
  // Nobody waits for the reason of a node that was never there: it has none, and would cost everyone the whole time.
  for (int stage = 0; stage < options_.stage.count; ++stage) {
    const auto peer = endpoint_.statistics(options_.nodes[static_cast<std::size_t>(stage)]);
    if (peer.ok() && peer->state == PeerState::kWaiting) ending_.on_gone(stage);
  }
  const TimePoint settle_by = clock_.now() + kSettleTime;
  while (!ending_.settled() && clock_.now() < settle_by) {
    auto event = endpoint_.receive(settle_by);
    if (!event.ok()) {
      if (event.status().code() == Code::kCancelled) break;
      continue;
    }
    const auto found = stage_of_.find(event->peer);
    if (found == stage_of_.end()) continue;
    if (const auto* change = std::get_if<transport::PeerChange>(&event->what)) {
      if (change->state == PeerState::kLost || change->state == PeerState::kLeft) ending_.on_gone(found->second);
    } else if (const auto* failed = std::get_if<wire::Failed>(&std::get<Message>(event->what))) {
      (void)ending_.on_failed(found->second, *failed);
    } else if (auto* over = std::get_if<wire::Over>(&std::get<Message>(event->what))) {
      (void)call_.on_over(found->second, std::move(*over), stage_.passes_done());
    }
  }
  do_task_alone();  // where this stage has heard only now that training was over
  const wire::Failed& reason = ending_.reason();
  const Status ended = unavailable(sentence(reason));
  return reason.stage == static_cast<std::uint32_t>(options_.stage.index) ? ended : ended.of_another();
}

std::string Driver::sentence(const wire::Failed& failed) const {
  const std::string node = failed.stage < options_.nodes.size() ? options_.nodes[failed.stage] : "a node";
  return text(node, " (stage ", failed.stage, ") ", failed.reason);
}

}  // namespace ravnest::cluster
