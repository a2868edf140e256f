#include "ravnest/cluster/cluster_rounds.h"

namespace ravnest::cluster {

Status ClusterRounds::look() {
  if (averaging_ == nullptr) return {};
  state_ = averaging_->rounds();
  if (!state_.status.ok()) return state_.status;
  while (stage_.rounds().held() < state_.held) {
    const std::uint64_t next = stage_.rounds().held() + 1;
    const std::uint64_t checkpoint = next == state_.held ? state_.checkpoint : 0;
    if (Status taken = stage_.on_held(next, checkpoint); !taken.ok()) return taken;
  }
  if (!stage_.is_root()) return {};
  if (state_.called) stage_.call_round();
  // A pass that is wanted before the call is open, or when it is over, comes with the next one: the weights that this
  // call ends with, and that were perhaps validated, must not change any more.
  const bool ending = call_.phase() == stage::CallPhase::kFinishing;
  const bool open = call_.phase() == stage::CallPhase::kOpen || ending;
  const bool over = (ending || ends_with_the_last_) && call_.trains() && state_.finished && state_.over;
  if (open && !over && (state_.wants_pass || state_.checkpoint_next)) stage_.join_round();
  return {};
}

void ClusterRounds::on_begin(const wire::PassHead& head) {
  if (averaging_ == nullptr || !stage_.is_root()) return;
  if (head.kind == wire::PassKind::kTrain) {
    ends_with_the_last_ = false;
    if (state_.finished) averaging_->resume();
  }
  if (head.round > 0) {
    const bool marked = head.kind == wire::PassKind::kTrain;
    averaging_->enter(
        head.round, stage_.rounds().round_samples(),
        marked ? capture_at(Entry::kMarkedPass, head.step + 1) : capture_at(Entry::kAveragingPass, head.step));
  }
  state_ = averaging_->rounds();
}

bool ClusterRounds::let_the_call_end() {
  // Of a call that goes on the others are not told that it is through: it trains on in the next one.
  if (averaging_ == nullptr || !call_.trains() || call_.goes_on()) return true;
  if (!state_.finished) {
    averaging_->finish(stage_.rounds().samples_since(), capture_at(Entry::kLast, stage_.steps()));
    state_ = averaging_->rounds();
  }
  return state_.over && stage_.rounds().taken() == state_.held;
}

std::vector<std::string> ClusterRounds::waiting_for() const {
  const bool waits = (call_.trains() && state_.finished) || stage_.waits_for_round();
  return waits ? state_.waiting_for : std::vector<std::string>();
}

}  // namespace ravnest::cluster
