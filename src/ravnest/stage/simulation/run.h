// One simulated run: what the drivers of the stages do, and what befalls them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ravnest/stage/call.h"
#include "ravnest/stage/ending.h"
#include "ravnest/stage/simulation/checker.h"
#include "ravnest/stage/simulation/network.h"
#include "ravnest/stage/simulation/scenario.h"
#include "ravnest/stage/simulation/simulation.h"
#include "ravnest/stage/stage.h"

namespace ravnest::stage::simulation {

class Run {
 public:
  Run(Choices& choices, const Tell& tell, Sabotage sabotage);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  SimulationOutcome run();

 private:
  enum class State : std::uint8_t { kRunning, kEnding, kEnded, kLeft, kDead };

  // A stage and its driver.
  struct Node {
    Node(const StageOptions& options)
        : stage(options), call(options.index, options.count), ending(options.index, options.count) {}

    Stage stage;
    Call call;
    Ending ending;
    State state = State::kRunning;
    bool working = false;
    bool paused = false;
    bool fails_next = false;
    bool isolated = false;
    Work work;
    std::size_t calls = 0;  // that are closed
    std::uint64_t forwards_sent = 0;
    Time ended_at = 0;
    std::vector<Event> inbox;
    std::vector<Event> taken;  // kept for misfits
  };

  Node& node(int index) { return nodes_[static_cast<std::size_t>(index)]; }
  const Habits& habits(int index) const { return scenario_.habits[static_cast<std::size_t>(index)]; }
  bool sabotaged(Sabotage what, int index) const { return sabotage_ == what && index == 1; }

  // The driver of a stage.
  void happens(const Event& event);
  void read_inbox(int index);
  void take(int index, const Event& event);
  void feed(int index, const Event& event);
  Status hand_over(int index, const Event& event);
  void inject_misfit(int index);
  void worked(int index);
  void send_results(int index, const Work& work);
  void send(EventKind kind, int from, int to, std::uint64_t number, Lane lane);
  void turn(int index);
  void enter_call(int index);
  void advance_call(int index);
  void leave_call(int index);
  void pause(int index);

  // The root's driver.
  void offer_passes();
  const std::vector<Offer>& offers() { return scenario_.calls[node(0).calls]; }
  bool call_is_done();
  bool averages_before_the_end();
  void end_call();
  void close_call();

  // What other clusters ask for and do.
  void look_at_other_clusters();
  void exchange(int index, const Work& work);
  void give(int index, std::uint64_t round);

  // Failure.
  void strike(const Fault& fault);
  void lose(int one, int other);
  void throws(int index);
  void fails(int index, const std::optional<wire::Failed>& to_tell);
  void end_if_settled(int index);
  void end(int index);
  void leave(int index, State state);

  // The end.
  void check_the_end();
  void check_failure();
  bool one_reason_is_promised() const;
  bool is_true(const wire::Failed& reason) const;
  SimulationOutcome outcome();

  void mix(std::uint64_t value) { digest_ = (digest_ ^ value) * 1099511628211U; }
  template <class... Ts>
  void say(const Ts&... parts) const {
    if (tell_) tell_(text(network_.now(), " us: ", parts...));
  }

  Choices& choices_;
  const Tell& tell_;
  Sabotage sabotage_;
  Scenario scenario_;
  Network network_;
  Checker checker_;
  std::vector<Node> nodes_;
  SimulationOutcome outcome_;
  std::uint64_t digest_ = 14695981039346656037U;
  std::uint64_t events_ = 0;

  // Of the root's driver.
  std::size_t offered_ = 0;  // of the call
  std::uint64_t reports_ = 0;
  bool offers_pause_ = false;
  bool averaged_at_end_ = false;  // of the call

  int given_ = 0;  // stages that have given to the round that comes next

  // What befell them.
  std::vector<wire::Failed> told_;  // all that was ever told
  std::vector<bool> failed_;        // by stage: by itself
  std::vector<bool> struck_;        // by stage: by any fault
  Time last_fault_at_ = 0;
  bool pair_parted_ = false;
  bool lost_after_telling_ = false;
};

}  // namespace ravnest::stage::simulation
