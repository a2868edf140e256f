#include "ravnest/stage/simulation/scenario.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ravnest::stage::simulation {
namespace {

using wire::PassKind;

// What a cluster is is drawn for the most stages that there can be, and what is not needed left out: so every choice
// has its place in the list, and one can be made smaller without another meaning for all that follow.
constexpr int kMostStages = 8;
constexpr std::size_t kMostFaults = 3;
constexpr std::size_t kMostCalls = 3;

// Who sends to whom in one kind of pass. Only the root is sent nothing: a stage that would be gets an empty Forward
// from it, which to a stage is one as any other.
std::vector<Neighbours> draw_wiring(Choices& choices, int count) {
  std::vector<Neighbours> all(static_cast<std::size_t>(count));
  const std::uint64_t skip_percent = choices.one_of({0, 25, 60});
  const std::uint64_t gap_percent = choices.one_of({0, 0, 30, 80});
  for (int stage = 1; stage < kMostStages; ++stage) {
    std::vector<int> producers;
    for (int from = 0; from < stage; ++from) {
      const std::uint64_t drawn = choices.pick(99);
      const bool sends = from == stage - 1 ? drawn < 100 - gap_percent : drawn >= 100 - skip_percent;
      if (sends) producers.push_back(from);
    }
    if (stage >= count) continue;
    if (producers.empty()) producers.push_back(0);
    for (const int from : producers) all[static_cast<std::size_t>(from)].consumers.push_back(stage);
    all[static_cast<std::size_t>(stage)].producers = std::move(producers);
  }
  return all;
}

void add_once(std::vector<int>& stages, int stage) {
  if (std::ranges::find(stages, stage) == stages.end()) stages.push_back(stage);
}

void draw_tied_group(Choices& choices, std::vector<StageOptions>& stages) {
  std::vector<int> members;
  for (int stage = 0; stage < kMostStages; ++stage) {
    if (choices.chance(40) && stage < static_cast<int>(stages.size())) members.push_back(stage);
  }
  for (std::size_t i = 1; i < members.size(); ++i) {
    add_once(stages[static_cast<std::size_t>(members[0])].tied_users, members[i]);
    add_once(stages[static_cast<std::size_t>(members[i])].tied_keepers, members[0]);
  }
}

void draw_stages(Choices& choices, Scenario& scenario) {
  const int drawn_count = 2 + choices.pick_int(kMostStages - 2);
  const int count = choices.chance(2) ? 1 : drawn_count;
  const auto schedule = static_cast<Schedule>(choices.pick(2));
  const int window = choices.pick_int(count + 3);
  const std::vector<Neighbours> train = draw_wiring(choices, count);
  const std::vector<Neighbours> other = draw_wiring(choices, count);
  const std::vector<Neighbours>& evaluate = choices.chance(50) ? other : train;
  for (int index = 0; index < count; ++index) {
    StageOptions& stage = scenario.stages.emplace_back();
    stage.index = index;
    stage.count = count;
    stage.schedule = schedule;
    stage.window = window;
    stage.train = train[static_cast<std::size_t>(index)];
    stage.evaluate = evaluate[static_cast<std::size_t>(index)];
  }
  for (int group = 0; group < 2; ++group) {
    if (choices.chance(40)) draw_tied_group(choices, scenario.stages);
  }
}

// A call: runs of batches of one kind each. Weights are updated every so many batches, and at the call's end if so
// drawn.
std::vector<Offer> draw_call(Choices& choices, std::uint32_t parts, std::uint64_t update_every,
                             std::uint64_t& batches) {
  std::vector<Offer> call;
  if (choices.chance(3)) return call;
  const bool update_at_end = !choices.chance(20);
  for (std::uint64_t run = choices.pick(1) + 1; run > 0; --run) {
    constexpr std::array kKinds = {PassKind::kTrain, PassKind::kTrain, PassKind::kTrain, PassKind::kValidate,
                                   PassKind::kPredict};
    const PassKind kind = kKinds[choices.pick(kKinds.size() - 1)];
    for (std::uint64_t batch = choices.pick(3) + 1; batch > 0; --batch) {
      const std::uint32_t of =
          batch == 1 && choices.chance(30) ? 1 + static_cast<std::uint32_t>(choices.pick(parts - 1)) : parts;
      if (kind == PassKind::kTrain) ++batches;
      for (std::uint32_t part = 0; part < of; ++part) {
        const bool update = kind == PassKind::kTrain && part + 1 == of && batches % update_every == 0;
        call.push_back(
            {.kind = kind, .batch = batches, .part = part, .parts = of, .weight = 1.0 / of, .update = update});
      }
    }
  }
  const auto last = std::find_if(call.rbegin(), call.rend(), [](const Offer& o) { return o.kind == PassKind::kTrain; });
  if (update_at_end && last != call.rend()) last->update = true;
  return call;
}

// Epochs go on every few batches, and may begin anew with a call. Samples are such that passes can be told apart.
void number_epochs(Scenario& scenario, std::uint64_t batches_per_epoch, bool anew) {
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  for (std::vector<Offer>& call : scenario.calls) {
    if (anew) batches = 0;
    for (Offer& offer : call) {
      offer.epoch = batches / batches_per_epoch;
      offer.samples = ++samples;
      if (offer.kind == PassKind::kTrain && offer.part + 1 == offer.parts) ++batches;
    }
  }
}

void draw_rounds(Choices& choices, Scenario& scenario) {
  Rounds rounds;
  rounds.held = choices.chance(60);
  rounds.mode = choices.pick(1) == 0 ? AverageMode::kOverlap : AverageMode::kDrain;
  rounds.every = choices.one_of({1, 2, 3, 0});
  const Time hold_most = choices.one_of({0, 20, 400, 20'000});
  const bool called = choices.chance(30);
  const bool asked = choices.chance(20);
  for (std::size_t call = 0; call < kMostCalls; ++call) {
    scenario.averages_at_end.push_back(choices.pick(1) == 1 && rounds.held);
  }
  if (!rounds.held) return;
  scenario.stages[0].rounds = rounds;
  scenario.hold_most = hold_most;
  // Where the cluster drains it can't be seen which of an epoch's updates a call has made the due one.
  if (called && (rounds.mode == AverageMode::kOverlap || rounds.every > 0)) scenario.call_percent = 5;
  if (asked) scenario.average_percent = 3;
  scenario.round_checkpoint_percent = choices.one_of({0, 30, 100});
}

// Marks every so-manieth update for a checkpoint, and puts a snapshot pass behind every so-manieth batch; 0: none.
void add_checkpoints(Scenario& scenario, std::uint64_t marked, std::uint64_t passes) {
  std::uint64_t updates = 0;
  std::uint64_t batches = 0;
  std::uint64_t checkpoints = 0;
  for (std::vector<Offer>& call : scenario.calls) {
    std::vector<Offer> all;
    for (Offer offer : call) {
      if (offer.update && marked > 0 && ++updates % marked == 0) offer.checkpoint = ++checkpoints;
      all.push_back(offer);
      if (offer.part + 1 == offer.parts && passes > 0 && ++batches % passes == 0)
        all.push_back({.kind = PassKind::kSnapshot, .update = false, .checkpoint = ++checkpoints});
    }
    call = std::move(all);
  }
}

void draw_calls(Choices& choices, Scenario& scenario) {
  const auto parts = static_cast<std::uint32_t>(choices.one_of({1, 1, 2, 3, 4}));
  const std::uint64_t update_every = choices.one_of({1, 1, 2, 3});
  std::uint64_t batches = 0;
  const std::uint64_t batches_per_epoch = choices.one_of({1, 2, 4});
  const bool epochs_anew = choices.chance(20);
  const std::uint64_t marked = choices.one_of({0, 0, 1, 2, 5});
  const std::uint64_t passes = choices.one_of({0, 0, 0, 3, 7});
  for (std::uint64_t calls = choices.pick(kMostCalls - 1) + 1; calls > 0; --calls) {
    scenario.calls.push_back(draw_call(choices, parts, update_every, batches));
  }
  scenario.offered_ahead = choices.one_of({1, 3, 1000});
  add_checkpoints(scenario, marked, passes);
  number_epochs(scenario, batches_per_epoch, epochs_anew);
}

void draw_times(Choices& choices, Scenario& scenario) {
  const Time pause_most = choices.one_of({0, 0, 500, 50'000});
  for (int stage = 0; stage < kMostStages; ++stage) {
    scenario.habits.push_back({.work_most = choices.one_of({0, 20, 20, 400, 20'000}),
                               .pause_most = pause_most,
                               .reads_while_working = choices.pick(1) == 1});
  }
  scenario.habits.resize(scenario.stages.size());
  scenario.offer_pause_most = choices.one_of({0, 0, 500});
  scenario.delay_most = choices.one_of({0, 20, 400, 20'000, 200'000});
  scenario.late_percent = choices.one_of({0, 0, 3, 20});
}

void draw_faults(Choices& choices, Scenario& scenario) {
  const std::size_t faults = choices.chance(25) ? choices.one_of({1, 1, 2, 3}) : 0;
  scenario.detection_most = choices.one_of({0, 400, 20'000, 1'000'000});
  for (std::size_t i = 0; i < kMostFaults; ++i) {
    Fault fault;
    fault.kind = static_cast<FaultKind>(choices.pick(3));
    fault.turn = choices.pick(choices.one_of({10, 60, 400}));
    fault.stage = choices.pick_int(kMostStages - 1) % scenario.count();
    fault.other = choices.pick_int(kMostStages - 1) % scenario.count();
    if (i < faults) scenario.faults.push_back(fault);
  }
}

}  // namespace

Time Scenario::slowest_news() const {
  Time slowest = 0;
  for (const Habits& habit : habits) slowest = std::max(slowest, habit.work_most + habit.pause_most);
  return slowest + slowest_message();
}

Scenario draw_scenario(Choices& choices) {
  Scenario scenario;
  draw_stages(choices, scenario);
  draw_times(choices, scenario);
  draw_faults(choices, scenario);
  scenario.misfit_percent = choices.one_of({0, 0, 3, 20});
  draw_rounds(choices, scenario);
  draw_calls(choices, scenario);
  return scenario;
}

}  // namespace ravnest::stage::simulation
