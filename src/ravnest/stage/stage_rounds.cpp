// A stage's part in the rounds in which clusters average their weights.
#include <utility>

#include "ravnest/base/check.h"
#include "ravnest/stage/stage.h"

namespace ravnest::stage {

using wire::PassHead;
using wire::PassKind;

std::string_view name(AverageMode mode) { return mode == AverageMode::kOverlap ? "overlap" : "drain"; }

Result<AverageMode> parse_average_mode(std::string_view written) {
  for (const AverageMode mode : {AverageMode::kOverlap, AverageMode::kDrain}) {
    if (written == name(mode)) return mode;
  }
  return invalid("there is no way to average called \"", written, "\"; there are overlap and drain");
}

Status Stage::on_held(std::uint64_t round) {
  if (round != held_ + 1 || round > entered_) {
    return invalid("round ", round, " is said to hold, but the last one that did was ", held_,
                   ", and the last that this stage takes part in is ", entered_);
  }
  held_ = round;
  return {};
}

// A stage hears of a round that it takes part in when it has given to all before it: the root begins none before the
// last one holds, and none holds without this stage.
Status Stage::check_round(const PassHead& head) const {
  const bool averaging = head.kind == PassKind::kAverage;
  const bool gives = averaging || (head.kind == PassKind::kTrain && head.update);
  const std::uint64_t next = entered_ + 1;
  if (head.round == 0 ? !averaging : gives && head.round == next) return {};
  return invalid("a forward of pass ", head.pass, " says that it takes part in round ", head.round,
                 gives ? text(", but the next one is ", next) : std::string(", but it does not change the weights"));
}

// Whether the weights after the update that the offered pass ends with go into a round. Only a pass that ends with an
// update can be marked: the weights between the passes of one update are the same as after the last one.
bool Stage::is_due(const Offer& offer) const {
  if (!options_.rounds.held || offer.kind != PassKind::kTrain || !offer.update) return false;
  if (called_) return true;
  if (options_.rounds.every > 0) return updates_begun_ + 1 >= options_.rounds.every;
  return round_epoch_ && offer.epoch != *round_epoch_;
}

bool Stage::waits_for_round() const {
  if (round_is_over()) return false;
  return averaging_ || averaging_asked_ || joining_ || (!offers_.empty() && is_due(offers_.front()));
}

void Stage::begin_averaging() {
  // The last pass's answer comes before the update that it asks for: without that update the root would give older
  // weights than the others, which make theirs before this pass.
  if (training_in_flight_ > 0 || evaluating_in_flight_ > 0 || update_due_ || !round_is_over()) return;
  averaging_asked_ = false;
  averaging_in_flight_ = true;
  PassHead head = begin_pass(PassKind::kAverage);
  enter_round(head);
  passes_[next_forward_].head = head;
}

void Stage::enter_round(PassHead& head) {
  RAVNEST_CHECK(round_is_over(), "round ", entered_ + 1, " is entered before round ", entered_, " holds");
  head.round = ++entered_;
  called_ = joining_ = false;
  updates_begun_ = 0;
  round_samples_ = std::exchange(samples_, 0);
}

void Stage::take_in(const Work& work) {
  if (work.takes == 0) return;
  // Whoever holds the result keeps one only: a round that is skipped here would be lost.
  RAVNEST_CHECK(work.takes == taken_ + 1 && work.takes <= held_, "round ", work.takes, " is taken in after round ",
                taken_, ", and the last that holds is ", held_);
  taken_ = work.takes;
  ++counts_.rounds;
}

}  // namespace ravnest::stage
