// How a driver's calls and its run end.
#include <exception>

#include "ravnest/cluster/driver.h"

namespace ravnest::cluster {
namespace {

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

Status Driver::follow_call() {
  if (stage_.calls_over() == calls_over_) return {};
  ++calls_over_;
  return account_for(*task_);
}

Status Driver::lead_call() {
  if (!opened_ && call_.open()) {
    if (options_.on_open) {
      if (Status agreed = options_.on_open(call_.words()); !agreed.ok()) return agreed;
    }
    opened_ = true;
    endpoint_.interrupt();  // there may be requests
  }
  const bool computed = stage_.idle() && reports_ >= stage_.passes_begun();
  if (last_round_ && computed && rounds_are_over()) {
    const std::lock_guard lock(mutex_);
    if (requests_.empty() && !std::exchange(rounds_finished_, true)) changed_.notify_all();
  }
  if (task_ && !call_.accounted() && computed && rounds_are_over()) {
    if (Status told = send_to_others(wire::Over{stage_.passes_begun(), *task_}); !told.ok()) return told;
    if (Status done = account_for(*task_); !done.ok()) return done;
  }
  if (!call_.all_accounted()) return {};
  std::string closing;
  if (options_.on_accounts) {
    auto said = options_.on_accounts(call_.accounts());
    if (!said.ok()) return said.status();
    closing = std::move(*said);
  }
  call_.close(closing);
  return send_to_others(wire::Control{std::string(stage::Call::kClosed), std::move(closing)});
}

// Whether the other clusters let this call end. Until then they may want averaging passes of it.
bool Driver::rounds_are_over() {
  if (options_.averaging == nullptr || !trains_ || goes_on_) return true;
  if (!std::exchange(finished_, true)) options_.averaging->finish(stage_.samples_since_round());
  return options_.averaging->over() && stage_.rounds_taken() == stage_.rounds_held();
}

Status Driver::account_for(const std::string& task) {
  did_task_ = true;
  std::string account;
  if (options_.on_over) {
    auto given = options_.on_over(task);
    if (!given.ok()) return given.status();
    account = std::move(*given);
  }
  call_.give_account(account);
  if (stage_.is_root()) return {};
  return send(0, wire::Control{std::string(stage::Call::kAccount), std::move(account)});
}

// The run fails, but its passes are done, and this stage knows: what they came to is not lost with the others.
void Driver::do_task_alone() {
  if (!task_ || did_task_ || !options_.on_over) return;
  if (stage_.is_root() && !(stage_.idle() && reports_ >= stage_.passes_begun() && rounds_are_over())) return;
  try {
    for (auto work = stage_.next(); work; work = stage_.next()) {  // an update may be left
      if (!perform(*work)) return;
    }
    publish();
    static_cast<void>(options_.on_over(*task_));
  } catch (const std::exception& error) {
    options_.log.error("what was left to do when training was over has failed: ", error.what());
  }
}

std::vector<std::string> Driver::missing() const {
  std::vector<std::string> names;
  if (stage_.is_root()) {
    const bool by_round = options_.averaging != nullptr && ((trains_ && finished_) || stage_.waits_for_round());
    if (opened_) return by_round ? options_.averaging->waiting_for() : names;
    for (const int stage : call_.missing()) names.push_back(options_.nodes[static_cast<std::size_t>(stage)]);
    return names;
  }
  if (stage_.passes_begun() > passes_before_ || task_) return {};
  for (int stage = 0; stage < options_.stage.count; ++stage) {
    if (stage != options_.stage.index && !seen_.contains(stage))
      names.push_back(options_.nodes[static_cast<std::size_t>(stage)]);
  }
  if (names.empty()) names.push_back(options_.nodes.front());
  return names;
}

// Whoever leaves knows that the call is closed; so should everyone, soon.
void Driver::judge_leavers() {
  for (const auto& [stage, when] : left_) {
    if (clock_.now() - when < kSettleTime) continue;
    return fail({.stage = static_cast<std::uint32_t>(stage), .lost = true, .reason = "left before the run was over"});
  }
}

// -- failure

void Driver::fail(wire::Failed reason) {
  if (const auto tell = ending_.fail(std::move(reason))) (void)send_to_others(*tell);
}

void Driver::fail_here(const Status& status) {
  fail({.stage = static_cast<std::uint32_t>(options_.stage.index),
        .lost = false,
        .reason = text("failed: ", status.message())});
}

Status Driver::end_alike() {
  for (int stage = 0; stage < options_.stage.count; ++stage) {
    const auto peer = endpoint_.statistics(options_.nodes[static_cast<std::size_t>(stage)]);
    if (peer.ok() && peer->state == PeerState::kWaiting) ending_.on_gone(stage);  // it was never there
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
    }
  }
  return {Code::kUnavailable, sentence(ending_.reason())};
}

std::string Driver::sentence(const wire::Failed& failed) const {
  const std::string node = failed.stage < options_.nodes.size() ? options_.nodes[failed.stage] : "a node";
  return text(node, " (stage ", failed.stage, ") ", failed.reason);
}

}  // namespace ravnest::cluster
