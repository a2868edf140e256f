// What the other clusters of a run ask for and do: of them there is nothing to see but this.
#include "ravnest/stage/simulation/run.h"

namespace ravnest::stage::simulation {

void Run::look_at_other_clusters() {
  Stage& root = node(0).stage;
  if (choices_.chance(scenario_.call_percent)) {
    say("the root is called to the next round");
    const bool under_way = root.rounds().entered() > root.rounds().held();  // then it is that one which is called for
    root.call_round();
    if (!under_way) checker_.called();
  }
  // After the call's last pass it would be one more at the end.
  const bool open = node(0).call.phase() == CallPhase::kOpen;
  if (open && offered_ < offers().size() && choices_.chance(scenario_.average_percent)) {
    say("the root is asked for an averaging pass");
    root.average();
    checker_.asked_to_average();
  }
}

// All that was offered is done; whether there is one more thing to do.
bool Run::averages_before_the_end() {
  if (!scenario_.averages_at_end[node(0).calls] || averaged_at_end_) return false;
  averaged_at_end_ = true;
  say("the root is asked for an averaging pass at the end of call ", node(0).calls);
  node(0).stage.average();
  checker_.asked_to_average();
  return true;
}

// What a work that is done has to do with rounds and checkpoints.
void Run::exchange(int index, const Work& work) {
  if (work.takes > 0 && !sabotaged(Sabotage::kSkipsAResult, index)) checker_.takes(index, work.takes);
  const bool forward = work.kind == WorkKind::kForward;
  if (forward && work.head.kind == wire::PassKind::kAverage) give(index, work.head.round);
  if (work.gives > 0 && !sabotaged(Sabotage::kGivesTooSoon, index)) give(index, work.gives);
  if (forward && work.head.kind == wire::PassKind::kSnapshot) checker_.takes_snapshot(index, work.head.checkpoint);
  if (work.checkpoint > 0 && !sabotaged(Sabotage::kSnapshotTooSoon, index))
    checker_.takes_snapshot(index, work.checkpoint);
  if (sabotage_ == Sabotage::kHoldsByItself && index == 0 && forward && work.head.round > 0) {
    (void)node(0).stage.on_held(work.head.round);
  }
}

// The round holds when all have given, and each hears of it at its own time.
void Run::give(int index, std::uint64_t round) {
  checker_.gives(index, round);
  if (++given_ < scenario_.count()) return;
  given_ = 0;
  ++outcome_.rounds;
  if (tell_) say("all stages have given to round ", round);
  const Time held = choices_.pick(scenario_.hold_most);
  wire::PassHead head;
  if (choices_.chance(scenario_.round_checkpoint_percent)) head.checkpoint = Scenario::kOfRounds + round;
  for (int stage = 0; stage < scenario_.count(); ++stage) {
    if (stage == 0 && sabotage_ == Sabotage::kHoldsByItself) continue;
    network_.after(held + choices_.pick(scenario_.hold_most),
                   {.kind = EventKind::kHeld, .to = stage, .from = stage, .number = round, .head = head});
  }
}

}  // namespace ravnest::stage::simulation
