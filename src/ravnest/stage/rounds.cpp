#include "ravnest/stage/rounds.h"

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

Status StageRounds::on_held(std::uint64_t round) {
  if (round != held_ + 1 || round > entered_) {
    return invalid("round ", round, " is said to hold, but the last one that did was ", held_,
                   ", and the last that this stage takes part in is ", entered_);
  }
  held_ = round;
  return {};
}

// A stage hears of a round that it takes part in when it has given to all before it: the root begins none before the
// last one holds, and none holds without this stage.
Status StageRounds::check(const PassHead& head) const {
  const bool averaging = head.kind == PassKind::kAverage;
  const bool gives = averaging || (head.kind == PassKind::kTrain && head.update);
  const std::uint64_t next = entered_ + 1;
  if (head.round == 0 ? !averaging : gives && head.round == next) return {};
  return invalid("a forward of pass ", head.pass, " says that it takes part in round ", head.round,
                 gives ? text(", but the next one is ", next) : std::string(", but it does not change the weights"));
}

void StageRounds::enter(std::uint64_t round) {
  RAVNEST_CHECK(is_over() && round == entered_ + 1, "round ", round, " is entered after round ", entered_,
                ", and the last that holds is ", held_);
  entered_ = round;
  called_ = joining_ = false;
  updates_ = 0;
  round_samples_ = std::exchange(samples_, 0);
}

void StageRounds::take(std::uint64_t round) {
  // The averager keeps one result only: that of a round which is skipped here would be lost.
  RAVNEST_CHECK(round == taken_ + 1 && round <= held_, "round ", round, " is taken in after round ", taken_,
                ", and the last that holds is ", held_);
  taken_ = round;
}

bool StageRounds::is_due(const Offer& offer) const {
  if (!rounds_.held || offer.kind != PassKind::kTrain || !offer.update) return false;
  if (called_) return true;
  if (rounds_.every > 0) return updates_ + 1 >= rounds_.every;
  return epoch_ && offer.epoch != *epoch_;
}

std::uint64_t StageRounds::begin(const Offer& offer) {
  samples_ += offer.samples;
  if (!epoch_) epoch_ = offer.epoch;
  if (is_due(offer)) {
    epoch_ = offer.epoch;
    if (rounds_.mode == AverageMode::kOverlap) {
      enter(entered_ + 1);
      return entered_;
    }
    asked_ = true;  // when the batch is through
  }
  if (offer.update) ++updates_;
  return 0;
}

std::uint64_t StageRounds::begin_averaging() {
  asked_ = false;
  enter(entered_ + 1);
  return entered_;
}

}  // namespace ravnest::stage
