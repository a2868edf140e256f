// A stage's part in the rounds in which clusters average their weights.
#include <algorithm>

#include "ravnest/stage/stage.h"

namespace ravnest::stage {

using wire::PassHead;
using wire::PassKind;

bool Stage::waits_for_round() const {
  if (rounds_.is_over()) return false;
  return averaging_ || rounds_.wants_pass() || (!offers_.empty() && rounds_.is_due(offers_.front()));
}

// A round that was entered by a marked pass has none: each stage takes its result in after an update of its own.
Status Stage::on_held(std::uint64_t round, std::uint64_t checkpoint) {
  Status held = rounds_.on_held(round);
  if (held.ok() && averaging_) average_checkpoint_ = checkpoint;
  return held;
}

// Whether another pass that is known here, or its update, gives to the same round.
bool Stage::gives_already(const PassHead& head) const {
  if (head.round == 0) return false;
  return update_gives_ == head.round || std::ranges::any_of(passes_, [&](const auto& known) {
           return known.first != head.pass && known.second.head && known.second.head->round == head.round;
         });
}

void Stage::begin_averaging() {
  // The last pass's answer comes before the update that it asks for: without that update the root would give older
  // weights than the others, which make theirs before this pass.
  if (training_in_flight_ > 0 || evaluating_in_flight_ > 0 || update_due_ || !rounds_.is_over()) return;
  averaging_in_flight_ = true;
  PassHead head = begin_pass(PassKind::kAverage);
  head.round = rounds_.begin_averaging();
  passes_[next_forward_].head = head;
}

// The root has entered it by beginning the pass.
void Stage::give_to(std::uint64_t round) {
  if (!is_root()) rounds_.enter(round);
}

void Stage::take_in(const Work& work) {
  if (work.takes == 0) return;
  rounds_.take(work.takes);
  ++counts_.rounds;
}

}  // namespace ravnest::stage
