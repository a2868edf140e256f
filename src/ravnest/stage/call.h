// Where a call stands, at one stage: a state machine, and the only place where that is kept.
//
// A call is what users make on every node: train(), evaluate(), pred(). No pass of it begins before every stage has
// said that it is ready for it, so that no pass meets a stage that is still in the call before. It ends in three steps:
// the root says that all passes are done and what is left to do (wire::Over), every stage does that and gives account
// of itself, and when the root has all accounts it closes the call. So a call is through everywhere, or fails
// everywhere.
//
// Not thread-safe; one owner. What comes is checked: a message that does not fit is kInvalid and changes nothing. What
// the owner does is checked as well: a step that is not the next one is a mistake in this program, and ends it.
// Sentences of others are made fit for one line of a terminal (printable.h), one's own before they are told.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/wire/call_messages.h"

namespace ravnest::stage {

// In this order. A stage other than the root does not see kOpen and kFinishing: to it passes come, or the end.
enum class CallPhase : std::uint8_t {
  kClosed,     // no call is under way here
  kReady,      // this stage has entered it and waits: the root for the others, they for passes or the end
  kOpen,       // root: everyone is ready, and passes may begin
  kFinishing,  // root: no more passes will be asked for; those that were may be in flight
  kOver,       // all passes are done everywhere; the task is left to do
  kTask,       // this stage is at it, or has failed in it
  kAccounted,  // it is done, whatever came of it, and told
};

class Call {
 public:
  Call(int self, int count) : self_(self), count_(count) {}

  // -- what this stage does

  // From kClosed: enters the next call, after so many passes of all calls before. Others: `ready` is to be told to the
  // root. `trains`, at the root: it is known that passes of it will.
  void begin(wire::Ready ready, std::uint64_t passes, bool trains = false);
  // Root, when `all_ready`.
  void open();
  // Root, when open: a pass of it trains.
  void train();
  // Root, when open: this is to be done after the passes. `goes_on`: what the user has called goes on in the next call.
  void finish(wire::Task task, bool goes_on);
  // Root, when finishing: the task, for what is not known before all passes are done.
  wire::Task& task();
  // Root, when finishing: all passes, so many of all calls, are done everywhere. To be told to all others.
  wire::Over end(std::uint64_t passes);
  // When over: what is to be done. It is given out once: whatever comes of it, nobody does it twice.
  wire::Task take_task();
  // When the task is done. Others: to be told to the root.
  const wire::Account& give_account(wire::Account account);
  // Root, when `all_accounted`. To be told to all others.
  const wire::Closed& close(wire::Closed closed);

  // -- what comes

  // Root. A stage may be ready for the next call before the root is.
  Status on_ready(int from, wire::Ready ready);
  // Others, from the root; `passes` of all calls were computed here.
  Status on_over(int from, wire::Over over, std::uint64_t passes);
  // Root.
  Status on_account(int from, wire::Account account);
  // Others, from the root.
  Status on_closed(int from, wire::Closed closed);
  // Others: whether a pass may come now.
  Status admits_pass() const;

  // -- how it is

  CallPhase phase() const { return phase_; }
  // Passes of all calls before this one, or before the last where none is under way.
  std::uint64_t passes_before() const { return passes_before_; }
  // Root: everyone is ready, and the call is not open yet.
  bool all_ready() const { return phase_ == CallPhase::kReady && missing().empty(); }
  // Root: those who are not ready.
  std::vector<int> missing() const;
  // Root, when all are ready: for what, by stage.
  std::vector<wire::Ready> ready() const { return values(ready_); }
  // Root: passes of it train; or those of the call before did, and it goes on in this one.
  bool trains() const { return trains_; }
  // Root: what the user has called goes on in the next call.
  bool goes_on() const { return goes_on_; }
  bool all_accounted() const;
  // Root, when all have given account: by stage.
  std::vector<wire::Account> accounts() const { return values(accounts_); }
  // This stage's own, of this call or the last.
  const wire::Account* account() const;
  // Once it is closed, until the next one begins.
  const std::optional<wire::Closed>& closed() const { return closed_; }

  bool operator==(const Call&) const = default;

 private:
  template <class T>
  static std::vector<T> values(const std::map<int, T>& by_stage) {
    std::vector<T> values;
    for (const auto& [stage, value] : by_stage) values.push_back(value);
    return values;
  }
  bool is_root() const { return self_ == 0; }
  bool is_other(int stage) const { return stage != self_ && stage >= 0 && stage < count_; }
  void enter(CallPhase phase);

  int self_;
  int count_;
  CallPhase phase_ = CallPhase::kClosed;
  std::uint64_t passes_before_ = 0;
  bool trains_ = false;
  bool goes_on_ = false;
  wire::Task task_;
  std::map<int, wire::Ready> ready_;       // root: all stages' for this call; when it is closed, for the next
  std::map<int, wire::Account> accounts_;  // root: all stages'; others: their own
  std::optional<wire::Closed> closed_;
};

}  // namespace ravnest::stage
