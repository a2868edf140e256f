// Which rounds between clusters one stage has been through, and at the root when the next one is due.
//
// A round as a stage goes through it: it is entered (the root begins the pass after whose update the weights go into
// it, the others give theirs), it holds (every cluster has the result), and its result is taken in. There is one at a
// time: a round is entered when the one before it holds, and given to with that one's result taken in.
//
// What the clusters say to each other of a round is not known here (average/agreement.h), nor what became of that for
// this cluster (average/own_rounds.h): an averager has both, on a thread of its own, and is ahead of its stage. The
// stage hears of it between two works (`on_held`), so that a work sees the rounds the same from beginning to end.
//
// Not thread-safe; one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/wire/message.h"

namespace ravnest::stage {

struct Offer;

enum class AverageMode : std::uint8_t { kOverlap, kDrain };
std::string_view name(AverageMode mode);
Result<AverageMode> parse_average_mode(std::string_view written);  // "overlap", "drain"

// When the root's cluster averages with others.
struct Rounds {
  bool held = false;        // there are others
  std::uint64_t every = 0;  // updates; 0: once per epoch, with the first update of the next one
  AverageMode mode = AverageMode::kOverlap;

  bool operator==(const Rounds&) const = default;
};

class StageRounds {
 public:
  explicit StageRounds(const Rounds& rounds) : rounds_(rounds) {}

  // -- how far the stage is

  std::uint64_t entered() const { return entered_; }
  std::uint64_t held() const { return held_; }
  std::uint64_t taken() const { return taken_; }
  // None is under way.
  bool is_over() const { return entered_ == held_; }
  // The round whose result is there and not taken in; 0: none.
  std::uint64_t to_take() const { return held_ > taken_ ? held_ : 0; }
  // It is known here that the round before holds.
  bool may_give_to(std::uint64_t round) const { return round <= held_ + 1; }

  // -- what becomes of a round

  // kInvalid, with nothing changed, unless it is the round under way.
  Status on_held(std::uint64_t round);
  // Others than the root: whether what a pass's head says of rounds can be.
  Status check(const wire::PassHead& head) const;
  // The next round. The root when it begins the pass, the others when they give.
  void enter(std::uint64_t round);
  void take(std::uint64_t round);

  // -- when the next one is due, at the root

  // Another cluster needs a round: it is due with the next update. Nothing while one is under way.
  void call() { called_ = called_ || is_over(); }
  // An averaging pass is to be begun, whatever else is due.
  void ask_for_pass() { asked_ = true; }
  // The same for a round that others hold. Nothing while one is under way.
  void join() { joining_ = joining_ || is_over(); }
  bool wants_pass() const { return asked_ || joining_; }
  // Whether the weights after the update that the offered pass ends with go into a round. Only a pass that ends with an
  // update can: between the passes of one update the weights are the same as after the last one.
  bool is_due(const Offer& offer) const;
  // A pass that trains is begun. Returns the round that it is marked with, which is entered; 0: none.
  std::uint64_t begin(const Offer& offer);
  // An averaging pass is begun. Returns its round, which is entered.
  std::uint64_t begin_averaging();
  // Samples of the passes that were begun between the last two rounds that were entered, and since then.
  std::uint64_t round_samples() const { return round_samples_; }
  std::uint64_t samples_since() const { return samples_; }

  bool operator==(const StageRounds&) const = default;

 private:
  Rounds rounds_;
  std::uint64_t entered_ = 0;
  std::uint64_t held_ = 0;
  std::uint64_t taken_ = 0;

  // Of the root.
  bool called_ = false;
  bool asked_ = false;
  bool joining_ = false;
  std::uint64_t updates_ = 0;           // begun since the last round was entered
  std::uint64_t samples_ = 0;           // of passes begun since then
  std::uint64_t round_samples_ = 0;     // the same of the last round
  std::optional<std::uint64_t> epoch_;  // of the last round; before the first, of the first pass
};

}  // namespace ravnest::stage
