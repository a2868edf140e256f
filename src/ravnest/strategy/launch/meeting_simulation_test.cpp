// Whole meetings, drawn from a seed: ranks that start, join, are lost, come again or are started with something else,
// in every order that a network can make of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/strategy/launch/meeting.h"

namespace ravnest::strategy {
namespace {

constexpr int kSeeds = 3000;
constexpr int kMostSteps = 2000;
constexpr int kMostBreaks = 5;
constexpr const char* kMaster = "10.0.0.1";

struct Plan {
  int world = 2;
  int losses = 0;  // that may happen
  bool comes_again = false;
  int odd_one = -1;    // a rank that is started with something else
  int withdrawn = -1;  // a rank that cannot be part of the run
};

class World {
 public:
  World(const Plan& plan, std::uint64_t seed)
      : plan_(plan), random_(seed), ranks_(static_cast<std::size_t>(plan.world)) {}

  void run() {
    for (int step = 0; step < kMostSteps; ++step) {
      std::vector<std::function<void()>> possible = what_may_happen();
      if (possible.empty()) return;
      possible[draw(possible.size())]();
    }
    FAIL() << "it does not come to an end";
  }

  const Meeting* alive(int rank) const { return at(rank).meeting.get(); }
  bool lost_any() const { return losses_ > 0; }
  // It came when the run had begun, or is of a meeting whose rank 0 was lost: not for the present rank 0 to decide.
  bool is_of_another_meeting(int rank) const {
    return too_late_.contains(rank) || (came_again_.contains(0) && (alive(rank)->failure() || alive(rank)->met()));
  }

 private:
  using Pair = std::pair<int, int>;
  struct Rank {
    std::unique_ptr<Meeting> meeting;  // none: not started, or lost
    bool started = false;
    std::set<int> reaches;  // whom it dials
  };

  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  std::size_t draw(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
  static Pair pair_of(int a, int b) { return {std::min(a, b), std::max(a, b)}; }

  std::vector<std::function<void()>> what_may_happen() {
    std::vector<std::function<void()>> possible;
    for (int a = 0; a < plan_.world; ++a) {
      if (!at(a).meeting && (!at(a).started || may_come_again(a))) possible.emplace_back([=, this] { start(a); });
      if (!at(a).meeting) continue;
      if (losses_ < plan_.losses && draw(20) == 0) possible.emplace_back([=, this] { lose(a); });
      for (const int b : at(a).reaches) {
        const bool can_break = breaks_ < kMostBreaks && sessions_.contains(pair_of(a, b)) && draw(10) == 0;
        if (can_break && !broken_.contains(pair_of(a, b))) possible.emplace_back([=, this] { part(a, b); });
        if (broken_.contains(pair_of(a, b))) possible.emplace_back([=, this] { mend(a, b); });
        if (at(b).meeting && !sessions_.contains(pair_of(a, b))) possible.emplace_back([=, this] { connect(a, b); });
      }
    }
    for (const auto& [link, messages] : in_flight_) {
      if (!messages.empty() && !broken_.contains(pair_of(link.first, link.second)))
        possible.emplace_back([pair = link, this] { deliver(pair); });
    }
    return possible;
  }

  bool may_come_again(int rank) const { return plan_.comes_again && !came_again_.contains(rank); }

  void start(int rank) {
    if (at(rank).started) came_again_.insert(rank);
    if (const Meeting* first = alive(0); first && first->met()) too_late_.insert(rank);
    const wire::Join join{
        .world = static_cast<std::uint32_t>(plan_.world),
        .host = "",
        .port = static_cast<std::uint16_t>(40000 + rank),
        .settings = {rank == plan_.withdrawn ? wire::Setting{kWithdraws, "failed"}
                                             : wire::Setting{"model", rank == plan_.odd_one ? "b" : "a"}}};
    at(rank) = {std::make_unique<Meeting>(rank, join, kMaster), true, {}};
    if (rank != 0) at(rank).reaches.insert(0);
  }

  void connect(int a, int b) {
    sessions_.insert(pair_of(a, b));
    perform(a, at(a).meeting->on_up(b, host(b)));
    perform(b, at(b).meeting->on_up(a, host(a)));
  }

  void part(int a, int b) {
    ++breaks_;
    broken_.insert(pair_of(a, b));
    at(a).meeting->on_down(b);
    at(b).meeting->on_down(a);
  }

  void mend(int a, int b) {
    broken_.erase(pair_of(a, b));
    perform(a, at(a).meeting->on_up(b, host(b)));
    perform(b, at(b).meeting->on_up(a, host(a)));
  }

  void lose(int rank) {
    ++losses_;
    at(rank).meeting.reset();
    for (int other = 0; other < plan_.world; ++other) {
      in_flight_[{rank, other}].clear();
      in_flight_[{other, rank}].clear();
      broken_.erase(pair_of(rank, other));
      if (sessions_.erase(pair_of(rank, other)) > 0) perform(other, at(other).meeting->on_gone(rank));
    }
  }

  void deliver(Pair link) {
    std::deque<wire::Message>& messages = in_flight_[link];
    const wire::Message message = messages.front();
    // Now and then it comes twice, as if it had been sent twice.
    if (draw(8) != 0) messages.pop_front();
    Meeting& to = *at(link.second).meeting;
    if (const auto* meeting = std::get_if<wire::Meeting>(&message)) {
      perform(link.second, to.on_message(link.first, *meeting));
    } else {
      perform(link.second, to.on_failed(link.first, std::get<wire::Failed>(message)));
    }
  }

  void perform(int rank, const MeetingActions& actions) {
    for (const MeetingAction& action : actions) {
      if (const auto* reach = std::get_if<Reach>(&action)) {
        EXPECT_EQ(reach->address, (Address{host(reach->rank), static_cast<std::uint16_t>(40000 + reach->rank)}));
        at(rank).reaches.insert(reach->rank);
        continue;
      }
      const auto& tell = std::get<Tell>(action);
      if (sessions_.contains(pair_of(rank, tell.rank))) in_flight_[{rank, tell.rank}].push_back(tell.message);
    }
  }

  static std::string host(int rank) { return rank == 0 ? kMaster : text("10.0.0.", rank + 1); }

  const Plan plan_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::set<Pair> sessions_;
  std::set<Pair> broken_;  // for now
  int breaks_ = 0;
  std::map<Pair, std::deque<wire::Message>> in_flight_;
  std::set<int> came_again_;
  std::set<int> too_late_;
  int losses_ = 0;
};

Plan drawn(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int most) { return std::uniform_int_distribution<int>(0, most - 1)(random); };
  Plan plan{.world = 2 + below(5)};
  if (below(2) == 0) plan.losses = 1 + below(2);
  plan.comes_again = below(2) == 0;
  if (below(3) == 0) plan.odd_one = 1 + below(plan.world - 1);
  if (below(4) == 0) plan.withdrawn = below(plan.world);
  return plan;
}

TEST(MeetingSimulation, AllMeetOrAllHearTheSameReason) {
  int met = 0;
  int failed = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    const Plan plan = drawn(seed);
    World world(plan, seed);
    world.run();
    if (HasFatalFailure()) return;
    const Meeting* host = world.alive(0);
    const bool all_can = !world.lost_any() && plan.odd_one < 0 && plan.withdrawn < 0;
    const bool none_can = !world.lost_any() && !all_can;
    for (int rank = 0; rank < plan.world; ++rank) {
      const Meeting* each = world.alive(rank);
      if (each == nullptr) continue;
      (each->met() ? met : failed) += 1;
      if (all_can) ASSERT_TRUE(each->met()) << rank;
      if (none_can) ASSERT_TRUE(each->failure()) << rank;
      if (each->met()) ASSERT_LT(std::max(plan.odd_one, plan.withdrawn), 0);
      if (none_can && plan.odd_one < 0) ASSERT_TRUE(each->failure()->reason.ends_with(") failed")) << rank;
      if (host == nullptr || world.is_of_another_meeting(rank)) continue;
      // What rank 0 has decided, everyone has who is there; before that nobody decides.
      ASSERT_EQ(each->met(), host->met()) << rank;
      ASSERT_EQ(each->failure().has_value(), host->failure().has_value()) << rank;
      if (host->failure()) ASSERT_EQ(each->failure()->reason, host->failure()->reason) << rank;
    }
  }
  EXPECT_GT(met, kSeeds / 2);
  EXPECT_GT(failed, kSeeds / 2);
}

}  // namespace
}  // namespace ravnest::strategy
