#include "ravnest/strategy/launch/testing/ending_simulation.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "ravnest/base/text.h"
#include "ravnest/base/timeline.h"
#include "ravnest/strategy/launch/rank_ending.h"

namespace ravnest::strategy {
namespace {

using Time = std::uint64_t;  // microseconds

constexpr Time kMillisecond = 1000;
constexpr Time kMost = 10'000 * kMillisecond;  // that a run may take to end
constexpr Time kMostDelay = 40 * kMillisecond;
constexpr Time kMostDetection = 3000 * kMillisecond;  // of a rank that is gone
constexpr Time kMostBreak = 300 * kMillisecond;
constexpr const char* kFailed = " has run out of memory";

TimePoint at(Time time) { return TimePoint(std::chrono::microseconds(time)); }

enum class Kind : std::uint8_t {
  // What befalls a rank.
  kFails,
  kKilled,
  kLeaves,
  // What it learns.
  kTold,
  kDown,
  kLost,
  kLeft,
  kBroke,
  kTime,
};

struct Event {
  Kind kind = Kind::kTime;
  int to = 0;
  int from = 0;
  wire::Failed told = {};
};

class Run {
 public:
  Run(std::uint64_t seed, const std::function<void(const std::string&)>& tell, EndingSabotage sabotage)
      : tell_(tell), sabotage_(sabotage), random_(seed), world_(2 + draw(6)), most_delay_(1 + draw(kMostDelay)) {
    for (int rank = 0; rank < world_; ++rank) shown_.push_back(text("rank ", rank));
    for (int rank = 0; rank < world_; ++rank) {
      ranks_.emplace_back(rank, shown_);
      ranks_.back().machine.at_step(800 + draw(3));
    }
    arrivals_.resize(static_cast<std::size_t>(world_ * world_));
    const Time within = draw(3) == 0 ? 2000 * kMillisecond : kMostDelay;
    const std::uint64_t faults = 1 + draw(4);
    for (std::uint64_t i = 0; i < faults; ++i) {
      const Kind kinds[] = {Kind::kFails, Kind::kKilled, Kind::kLeaves};
      put(draw(within), {.kind = kinds[draw(3)], .to = static_cast<int>(draw(world_)), .from = 0, .told = {}});
    }
  }

  EndingsOutcome run() {
    while (const auto next = timeline_.next()) {
      now_ = next->first;
      take(next->second);
      if (!outcome_.violation.empty()) return outcome_;
    }
    check();
    return outcome_;
  }

 private:
  enum class State : std::uint8_t { kRuns, kEnded, kLeft, kKilled };
  struct Rank {
    Rank(int rank, const std::vector<std::string>& shown) : machine(rank, shown) {}

    RankEnding machine;
    State state = State::kRuns;
    bool told = false;
    bool failed = false;
    bool broke = false;
    std::set<int> gone;  // that it knows of
  };

  Rank& rank(int number) { return ranks_[static_cast<std::size_t>(number)]; }
  std::uint64_t draw(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random_);
  }
  template <class... Parts>
  void say(const Parts&... parts) {
    if (tell_) tell_(text(now_ / 1000.0, " ms: ", parts...));
  }
  void put(Time time, Event event) { timeline_.put(time, std::move(event)); }

  // What `from` sends comes in its order; returns when.
  Time arrives(int from, int to) {
    Time& last = arrivals_[static_cast<std::size_t>(from * world_ + to)];
    last = std::max(last, now_ + draw(most_delay_));
    return last;
  }

  void take(const Event& event) {
    Rank& own = rank(event.to);
    const bool is_message = event.kind == Kind::kTold || event.kind == Kind::kLeft;
    // A killed rank got a part of what it said out, to each of the others another one.
    if (is_message && rank(event.from).state == State::kKilled && is_cut_off(event)) return;
    if (own.state != State::kRuns) return;
    switch (event.kind) {
      case Kind::kFails: return fail(event.to);
      case Kind::kKilled: return kill(event.to);
      case Kind::kLeaves: return leave(event.to);
      case Kind::kTold:
        say(shown_[event.to], " hears from ", event.from, ": ", event.told.reason);
        return tell(event.to, own.machine.on_failed(event.from, event.told, at(now_)));
      case Kind::kDown: return own.machine.on_connection(event.from, true);
      case Kind::kLost:
        say(shown_[event.to], " loses ", event.from);
        own.gone.insert(event.from);
        return tell(event.to, own.machine.on_lost(event.from, at(now_)));
      case Kind::kLeft: own.gone.insert(event.from); return tell(event.to, own.machine.on_left(event.from, at(now_)));
      case Kind::kBroke:
        say("something breaks on ", event.to);
        ++outcome_.breaks;
        own.broke = true;
        return tell(event.to, own.machine.broke(unavailable("the ring broke"), at(now_)));
      case Kind::kTime: return tell(event.to, own.machine.on_time(at(now_)));
    }
  }

  bool is_cut_off(const Event& event) { return now_ > cut_off_at(event.from, event.to); }
  Time& cut_off_at(int from, int to) { return cut_off_[static_cast<std::size_t>(from * world_ + to)]; }

  void fail(int number) {
    say(shown_[number], " fails");
    ++outcome_.failures;
    rank(number).failed = true;
    first_fault_ = std::min(first_fault_, now_);
    auto to_tell = rank(number).machine.fail(text(shown_[number], kFailed), at(now_));
    if (sabotage_ == EndingSabotage::kHidesItsFailure) to_tell.reset();
    tell(number, to_tell);
  }

  void kill(int number) {
    say(shown_[number], " is killed");
    Rank& own = rank(number);
    ++outcome_.kills;
    outcome_.kills_while_ending += own.machine.has_begun() ? 1 : 0;
    own.state = State::kKilled;
    first_fault_ = std::min(first_fault_, now_);
    for (int other = 0; other < world_; ++other) {
      if (other == number) continue;
      const Time cut = now_ + draw(most_delay_);
      cut_off_at(number, other) = cut;
      put(cut, {.kind = Kind::kDown, .to = other, .from = number, .told = {}});
      put(cut + draw(kMostDetection), {.kind = Kind::kLost, .to = other, .from = number, .told = {}});
      if (draw(4) != 0) put(cut + draw(kMostBreak), {.kind = Kind::kBroke, .to = other, .from = number, .told = {}});
    }
  }

  // In good order, though others need it.
  void leave(int number) {
    if (rank(number).machine.has_begun()) return;
    say(shown_[number], " leaves");
    ++outcome_.leaves;
    go(number, State::kLeft);
    for (int other = 0; other < world_; ++other) {
      if (other == number || draw(2) == 0) continue;
      first_fault_ = std::min(first_fault_, now_);
      put(arrives(number, other) + draw(kMostBreak), {.kind = Kind::kBroke, .to = other, .from = number, .told = {}});
    }
  }

  void go(int number, State state) {
    rank(number).state = state;
    for (int other = 0; other < world_; ++other) {
      if (other != number) put(arrives(number, other), {.kind = Kind::kLeft, .to = other, .from = number, .told = {}});
    }
  }

  void tell(int number, const RankEnding::ToTell& to_tell) {
    Rank& own = rank(number);
    const bool is_late = std::exchange(own.told, own.told || to_tell.has_value());
    if (to_tell && !(is_late && sabotage_ == EndingSabotage::kTellsOnce)) {
      for (int other = 0; other < world_; ++other) {
        if (other == number) continue;
        ++outcome_.messages;
        if (own.gone.contains(other)) own.machine.on_unreachable(other);
        put(arrives(number, other), {.kind = Kind::kTold, .to = other, .from = number, .told = *to_tell});
      }
    }
    if (own.machine.outcome()) {
      say(shown_[number], " ends: ", own.machine.outcome()->message());
      ++outcome_.endings;
      check_time(number);
      return go(number, State::kEnded);
    }
    const TimePoint wakes = own.machine.wakes_at();
    if (wakes == TimePoint::max() || (number == 0 && sabotage_ == EndingSabotage::kForgetsTheTime)) return;
    const auto due = static_cast<Time>(std::chrono::ceil<std::chrono::microseconds>(wakes - at(0)).count());
    put(std::max(due, now_), {.kind = Kind::kTime, .to = number, .from = number, .told = {}});
  }

  // -- what is promised

  void check_time(int number) {
    if (now_ > first_fault_ + kMost) violated(shown_[number], " ends ", (now_ - first_fault_) / 1000, " ms later");
  }

  void check() {
    std::optional<std::string> sentence;
    for (int number = 0; number < world_; ++number) {
      const Rank& own = rank(number);
      if (own.state == State::kRuns && has_to_end(number)) return violated(shown_[number], " waits for ever");
      if (own.state != State::kEnded) continue;
      const std::string& said = own.machine.outcome()->message();
      if (!is_true(said)) return violated(shown_[number], " says what is not so: ", said);
      if (sentence && *sentence != said) return violated(shown_[number], " says: ", said, ", and others: ", *sentence);
      sentence = said;
    }
  }

  // A rank that has left while nobody needed it any more is no reason.
  bool has_to_end(int number) {
    const bool someone_told = std::ranges::any_of(ranks_, [](const Rank& each) { return each.state == State::kEnded; });
    const bool someone_lost =
        std::ranges::any_of(rank(number).gone, [&](int each) { return rank(each).state == State::kKilled; });
    return rank(number).broke || rank(number).failed || someone_told || someone_lost;
  }

  bool is_true(const std::string& said) {
    for (int number = 0; number < world_; ++number) {
      const Rank& own = rank(number);
      const std::string& name = shown_[number];
      if (said == text(name, kFailed)) return own.failed;
      if (said.starts_with(name + " was lost at step 80")) return own.state == State::kKilled;
      if (said.starts_with(name + " left at step 80")) return own.state == State::kLeft;
      if (said == name + " failed: the ring broke") return own.broke;
    }
    return false;
  }

  template <class... Parts>
  void violated(const Parts&... parts) {
    if (outcome_.violation.empty()) outcome_.violation = text(parts...);
    say("VIOLATED: ", outcome_.violation);
  }

  const std::function<void(const std::string&)>& tell_;
  const EndingSabotage sabotage_;
  std::mt19937_64 random_;
  const int world_;
  const Time most_delay_;
  std::vector<std::string> shown_;
  std::vector<Rank> ranks_;
  std::vector<Time> arrivals_;  // of the last message, by pair
  std::vector<Time> cut_off_ = std::vector<Time>(static_cast<std::size_t>(world_ * world_), 0);
  Timeline<Event> timeline_;
  Time now_ = 0;
  Time first_fault_ = ~Time(0) - kMost;
  EndingsOutcome outcome_;
};

}  // namespace

EndingsOutcome& EndingsOutcome::operator+=(const EndingsOutcome& other) {
  if (violation.empty()) violation = other.violation;
  messages += other.messages;
  failures += other.failures;
  kills += other.kills;
  kills_while_ending += other.kills_while_ending;
  leaves += other.leaves;
  breaks += other.breaks;
  endings += other.endings;
  return *this;
}

EndingsOutcome simulate_endings(std::uint64_t seed, const std::function<void(const std::string&)>& tell,
                                EndingSabotage sabotage) {
  return Run(seed, tell, sabotage).run();
}

}  // namespace ravnest::strategy
