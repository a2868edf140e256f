#include "ravnest/stage/simulation/misfits.h"

#include <algorithm>

namespace ravnest::stage::simulation {
namespace {

using wire::PassKind;

class Misfits {
 public:
  Misfits(Choices& choices, const Scenario& scenario, const Checker& checker, int stage, CallPhase phase,
          const std::vector<Event>& taken)
      : choices_(choices),
        options_(scenario.stages[static_cast<std::size_t>(stage)]),
        window_(static_cast<std::uint64_t>(scenario.window())),
        checker_(checker),
        stage_(stage),
        phase_(phase),
        taken_(taken) {}

  std::optional<Event> draw() {
    switch (choices_.pick(14)) {
      case 0:
      case 1: return repeated();
      case 2: return forward(foreign(options_.train.producers), checker_.forwarded(stage_));
      case 3: return beyond_the_window();
      case 4: return of_no_batch();
      case 5: return contradicting();
      case 6: return backward(one_of(options_.train.consumers), checker_.forwarded(stage_) + choices_.pick(2));
      case 7: return from_no_consumer();
      case 8: return tied_gradients();
      case 9: return tied_values();
      case 10: return over();
      case 11: return held();
      case 12: return of_a_call();
      case 13: return of_no_update();
      default: return of_another_round();
    }
  }

 private:
  bool gpipe() const { return options_.schedule == Schedule::kGpipe; }

  std::optional<int> one_of(const std::vector<int>& stages) {
    if (stages.empty()) return std::nullopt;
    return stages[choices_.pick(stages.size() - 1)];
  }
  // A stage, or a number that is none, that is not among these.
  std::optional<int> foreign(const std::vector<int>& known) {
    const int stage = choices_.pick_int(options_.count);
    if (std::ranges::find(known, stage) != known.end()) return std::nullopt;
    return stage;
  }
  std::optional<int> foreign_to_both() {
    const std::optional<int> stage = foreign(options_.train.consumers);
    const std::vector<int>& others = options_.evaluate.consumers;
    return stage && std::ranges::find(others, *stage) == others.end() ? stage : std::nullopt;
  }

  std::optional<int> producer_of(PassKind kind) {
    if (kind == PassKind::kAverage || kind == PassKind::kSnapshot) return 0;
    return one_of((kind == PassKind::kTrain ? options_.train : options_.evaluate).producers);
  }

  std::optional<Event> message(EventKind kind, std::optional<int> from, std::uint64_t number) const {
    if (!from) return std::nullopt;
    return Event{.kind = kind, .to = stage_, .from = *from, .number = number, .head = {}};
  }
  std::optional<Event> forward(std::optional<int> from, std::uint64_t pass) const {
    std::optional<Event> made = message(EventKind::kForward, from, pass);
    if (made) made->head.pass = pass;
    return made;
  }
  std::optional<Event> backward(std::optional<int> from, std::uint64_t pass) const {
    return message(EventKind::kBackward, from, pass);
  }

  // A pass without tensors is sent to everyone.
  std::optional<Event> from_no_consumer() {
    const std::optional<int> stage = foreign_to_both();
    if (checker_.has_no_tensors(checker_.backwarded(stage_))) return std::nullopt;
    return backward(stage, checker_.backwarded(stage_));
  }

  // What is said of calls is said again for the next one: of_a_call knows when that does not fit.
  std::optional<Event> repeated() {
    if (taken_.empty()) return std::nullopt;
    const Event& event = taken_[choices_.pick(taken_.size() - 1)];
    if (event.kind > EventKind::kTiedValues) return std::nullopt;
    return event;
  }

  std::optional<Event> beyond_the_window() {
    return forward(one_of(options_.train.producers), checker_.backwarded(stage_) + window_ + choices_.pick(3));
  }

  std::optional<Event> of_no_batch() {
    std::optional<Event> made = forward(one_of(options_.train.producers), checker_.forwarded(stage_));
    if (!made) return std::nullopt;
    made->head.parts = static_cast<std::uint32_t>(choices_.pick(2));
    made->head.part = made->head.parts + static_cast<std::uint32_t>(choices_.pick(1));
    return made;
  }

  // A snapshot for a checkpoint, of the weights in the middle of an update.
  std::optional<Event> of_no_update() {
    std::optional<Event> made = forward(one_of(options_.train.producers), checker_.forwarded(stage_));
    if (made) made->head.checkpoint = 1 + choices_.pick(1);
    return made;
  }

  // Of a pass that another producer has spoken of already.
  std::optional<Event> contradicting() {
    for (const Event& event : taken_) {
      if (event.kind != EventKind::kForward || event.number < checker_.forwarded(stage_)) continue;
      std::optional<Event> made = forward(producer_of(event.head.kind), 0);
      made->head = event.head;
      made->head.batch += 1 + choices_.pick(3);
      return made;
    }
    return std::nullopt;
  }

  std::optional<Event> tied_gradients() {
    const bool by_pass = options_.schedule != Schedule::kAsync;
    const std::uint64_t next = by_pass ? checker_.backwarded(stage_) : checker_.updates(stage_);
    if (checker_.is_averaging(stage_)) return message(EventKind::kTiedGradients, one_of(options_.tied_users), next);
    if (choices_.pick(1) == 0) return message(EventKind::kTiedGradients, foreign(options_.tied_users), next);
    const bool before = next > 0 && choices_.pick(1) == 0;
    if (!before && gpipe()) return std::nullopt;
    return message(EventKind::kTiedGradients, one_of(options_.tied_users),
                   before ? choices_.pick(next - 1) : next + window_ + choices_.pick(2));
  }

  std::optional<Event> tied_values() {
    if (choices_.pick(1) == 0) return message(EventKind::kTiedValues, foreign(options_.tied_keepers), 1);
    // More than the next ones, or values that have come.
    std::uint64_t last = 0;
    const std::optional<int> keeper = one_of(options_.tied_keepers);
    for (const Event& event : taken_) {
      if (event.kind == EventKind::kTiedValues && event.from == keeper) last = event.number;
    }
    return message(EventKind::kTiedValues, keeper, choices_.pick(1) == 0 ? last + 2 : last);
  }

  // Of other passes than were computed here.
  std::optional<Event> over() {
    const std::uint64_t done = checker_.backwarded(stage_);
    const bool fewer = done > 0 && choices_.pick(1) == 0;
    return message(EventKind::kOver, 0, fewer ? choices_.pick(done - 1) : done + 1 + choices_.pick(2));
  }

  // From the wrong stage, to the wrong stage, or in the wrong phase.
  std::optional<Event> of_a_call() {
    const int from = choices_.pick_int(options_.count);
    const bool is_other = from != stage_ && from < options_.count;
    const std::uint64_t done = checker_.backwarded(stage_);
    switch (choices_.pick(3)) {
      case 0: {
        const bool fits = stage_ == 0 && is_other && phase_ <= CallPhase::kReady;  // unless it was ready before
        return fits ? std::nullopt : message(EventKind::kReady, from, 0);
      }
      case 1: {
        const bool fits = stage_ > 0 && from == 0 && phase_ == CallPhase::kReady;
        return fits ? std::nullopt : message(EventKind::kOver, from, done);
      }
      case 2: {
        const bool fits = stage_ == 0 && is_other && phase_ >= CallPhase::kOver;  // unless it gave account before
        return fits ? std::nullopt : message(EventKind::kAccount, from, 0);
      }
      default: {
        const bool fits = stage_ > 0 && from == 0 && phase_ == CallPhase::kAccounted;
        return fits ? std::nullopt : message(EventKind::kClosed, from, 0);
      }
    }
  }

  // A round that holds already, or one that this stage has not given to.
  std::optional<Event> held() {
    const std::uint64_t last = checker_.held(stage_);
    const bool takes_part = stage_ == 0 || checker_.entered(stage_) > last;  // the root does before it has given
    const std::uint64_t more = (takes_part ? 2 : 1) + choices_.pick(1);
    return message(EventKind::kHeld, stage_, choices_.pick(1) == 0 ? choices_.pick(last) : last + more);
  }

  std::optional<Event> of_another_round() {
    const auto kind = static_cast<PassKind>(choices_.pick(3));
    std::optional<Event> made = stage_ > 0 ? forward(producer_of(kind), checker_.forwarded(stage_)) : std::nullopt;
    if (!made) return std::nullopt;
    made->head.kind = kind;
    made->head.update = choices_.pick(1) == 1;
    const std::uint64_t given = checker_.entered(stage_);
    made->head.round = choices_.pick(1) == 0 ? given : given + 2;
    if (made->head.round == 0 && kind != PassKind::kAverage) return std::nullopt;
    return made;
  }

  Choices& choices_;
  const StageOptions& options_;
  std::uint64_t window_;
  const Checker& checker_;
  int stage_;
  CallPhase phase_;
  const std::vector<Event>& taken_;
};

}  // namespace

std::optional<Event> draw_misfit(Choices& choices, const Scenario& scenario, const Checker& checker, int stage,
                                 CallPhase phase, const std::vector<Event>& taken) {
  return Misfits(choices, scenario, checker, stage, phase, taken).draw();
}

}  // namespace ravnest::stage::simulation
