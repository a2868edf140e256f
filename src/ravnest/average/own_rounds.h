// Where one cluster stands in its rounds: what its root has said, what the agreement made of it, what is published.
//
// A round as one cluster goes through it:
//
//              enter                attempt_begins               holds
//    outside ----------> entered ------------------> exchanging --------> outside, of the next round
//       |                 ^   ^                      |   |   ^
//       |                 |   '------ is_out --------'   '---' attempt_begins: tried once more, with others
//       | attempt_begins  | enter: the averaging pass
//       '----> wanted ----'
//
// A cluster that trains no more takes part in every round: an attempt begins with it while it is outside, and its root
// is asked for an averaging pass (`wants_pass`). One that is out while it has entered does not lose what its stages
// gave: it enters again by itself, with `weight` and `owed`. One that is out while it is outside asks its root to enter
// (`called`).
// Beside that, whether it trains:
//
//    trains --finish--> finished --holds(last)--> over
//      ^------------------ resume ----------------'
//
// Not thread-safe: the averager's lock guards it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/average/averaging.h"
#include "ravnest/base/check.h"
#include "ravnest/base/status.h"

namespace ravnest::average {

class OwnRounds {
 public:
  const RoundState& state() const { return state_; }

  // -- what the root says

  void enter(std::uint64_t round, double weight, Capture capture) {
    RAVNEST_CHECK(is_outside() && round == state_.held + 1, "round ", round, " is entered after round ", entered_,
                  ", and the last that holds is ", state_.held);
    entered_ = round;
    weight_ = weight;
    capture_ = capture;
    state_.called = state_.wants_pass = state_.checkpoint_next = false;
  }
  void finish() {
    state_.finished = true;
    state_.over = false;
  }
  // `samples`: trained on after it entered the round that is not held yet; they count in the one after that.
  struct Debt {
    double samples = 0;
    Capture capture;
  };
  void owe(std::optional<Debt> debt) { owed_ = debt; }
  void resume() { state_.finished = false; }

  // -- what the agreement says

  void attempt_begins() { state_.wants_pass = is_outside(); }
  void holds(const wire::Attempt& attempt) {
    ++state_.held;
    state_.over = state_.over || attempt.last;
    // Of the last round they are taken when what comes after training is done: whoever trains says when.
    state_.checkpoint = attempt.last ? 0 : attempt.checkpoint;
    state_.checkpoint_next = attempt.checkpoint_next;
    owed_.reset();
  }
  // Whether it has entered, and is to enter again.
  bool is_out() {
    state_.called = is_outside();
    return !state_.called;
  }
  // Another cluster needs a round. Whether that is new: who has entered can't do more.
  bool call() { return is_outside() && !std::exchange(state_.called, true); }

  void waits_for(std::vector<std::string> roots) { state_.waiting_for = std::move(roots); }
  // The first reason stays.
  void fail(const Status& status) {
    if (state_.status.ok()) state_.status = status;
  }

  double weight() const { return weight_; }  // of the last round that was entered
  const Capture& capture() const { return capture_; }
  const std::optional<Debt>& owed() const { return owed_; }

 private:
  bool is_outside() const { return entered_ == state_.held; }

  RoundState state_;
  std::uint64_t entered_ = 0;  // the last round
  double weight_ = 0;
  Capture capture_;
  std::optional<Debt> owed_;
};

}  // namespace ravnest::average
