// One simulated run: what the owners of the agreements do, and what befalls them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/average/agreement.h"
#include "ravnest/average/simulation/checker.h"
#include "ravnest/average/simulation/network.h"
#include "ravnest/average/simulation/simulation.h"

namespace ravnest::average::simulation {

class Run {
 public:
  Run(std::uint64_t seed, const Tell& tell, Sabotage sabotage);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  SimulationOutcome run();

 private:
  // The root of a cluster, and all that it stands for.
  struct Cluster {
    std::optional<Agreement> agreement;  // none: not running
    int incarnation = 0;
    int rounds_left = 0;
    bool done = false;           // held the last round
    bool hastened = false;       // by a call
    std::uint64_t trains = 0;    // the kTrained that counts
    std::uint64_t changes = 0;   // of the agreement, when it last began to wait
    std::uint64_t patience = 0;  // the kPatience that counts
    Model model = 0;
    Model entered = 0;
    std::uint64_t attempt = 0;             // begun, and not over
    int weights = 0;                       // given so far
    Capture capture;                       // that it entered with, or has finished with
    std::optional<Capture> capture_after;  // it has finished meanwhile: of the round after that
    bool for_checkpoint = false;           // the round that held said so of the next
    bool changed = false;                  // it trains on since it finished, and no round has held since
    Time pace = 1;
  };

  Cluster& cluster(int index) { return clusters_[static_cast<std::size_t>(index)]; }
  int count() const { return static_cast<int>(clusters_.size()); }

  void draw_faults();
  void happens(const Event& event);
  void inject_misfit(int index, int from);
  // The owner of an agreement.
  void start(int index);
  void train(int index, Time longest);
  void trained(int index);
  void wait_again(int index);
  void carry_out(int index, const Agreement::Actions& actions);
  void send(int index, const Agreement::Send& send);
  void begin(int index, const Attempt& attempt);
  void start_ring(const Attempt& attempt);
  void result(int index, std::uint64_t attempt);
  void hold(int index, const Agreement::Holds& holds);
  double draw_weight(int index);
  Capture draw_capture(int index, bool finishes);
  // What befalls them.
  void crash(int index);
  void leave(int index);
  void part(int one, int other);
  void heal(int one, int other);
  void join(int one, int other);
  struct Path {
    bool closed = false;     // between the roots
    bool unreached = false;  // between the stages
  };
  Path& path(int one, int other) {
    return paths_[static_cast<std::size_t>(std::min(one, other)) * clusters_.size() +
                  static_cast<std::size_t>(std::max(one, other))];
  }

  void check_the_end();
  void mix(std::uint64_t value) { digest_ = (digest_ ^ value) * 1099511628211U; }
  template <class... Ts>
  void say(const Ts&... parts) const {
    if (tell_) tell_(text(network_.now(), ": ", parts...));
  }

  const Tell& tell_;
  Sabotage sabotage_;
  Chance chance_;
  bool parted_;       // pairs that live may lose each other
  bool checkpoints_;  // are made
  bool drains_;       // every round is entered so that one can be
  std::vector<Cluster> clusters_;
  Network network_;
  Checker checker_;
  std::vector<Path> paths_;
  std::uint64_t crashes_left_ = 0;
  std::uint64_t crash_chance_ = 0;  // per thousand, before each action
  SimulationOutcome outcome_;
  std::uint64_t digest_ = 14695981039346656037U;
};

}  // namespace ravnest::average::simulation
