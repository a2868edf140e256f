// What stages promise each other, held against what they do.
//
// The checker knows the scenario and sees every work begin and end and every message that is taken. It keeps its own
// books and asks the machines nothing until the end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/text.h"
#include "ravnest/stage/simulation/network.h"
#include "ravnest/stage/simulation/scenario.h"
#include "ravnest/stage/simulation/simulation.h"
#include "ravnest/stage/stage.h"

namespace ravnest::stage::simulation {

class Checker {
 public:
  explicit Checker(const Scenario& scenario);

  void taken(const Event& message);
  void begins(int stage, const Work& work);
  void ends(int stage, const Work& work);
  // A stage gives its weights to the round; it takes in what the round made of all that was given.
  void gives(int stage, std::uint64_t round);
  void takes(int stage, std::uint64_t round);
  // A stage takes its snapshot for the checkpoint.
  void takes_snapshot(int stage, std::uint64_t checkpoint);
  // The root enters a round with so many samples; it is called to the next one; it is asked for an averaging pass.
  void enters(std::uint64_t round, std::uint64_t samples);
  void called();
  void asked_to_average() { averaging_asked_ = true; }
  // The stage enters its next call.
  void call_entered(int stage) { ++truth(stage).calls_entered; }
  // The root has said Over, or a stage has taken the root's word for it and all that it waited for.
  void call_over(int stage);
  // The stage is through with the call, which is the number `call` from 0.
  void call_closed(int stage, std::size_t call);
  // A run that nothing disturbed, when nothing is under way any more.
  void all_done(const std::vector<const Stage*>& stages);

  template <class... Ts>
  void violated(Promise promise, const Ts&... parts) {
    if (!violation_.empty()) return;
    promise_ = promise;
    violation_ = text(sentence(promise), "; but ", parts...);
  }
  const std::string& violation() const { return violation_; }
  Promise promise() const { return promise_; }

  std::uint64_t passes() const { return truths_[0].forwarded; }
  std::uint64_t forwarded(int stage) const { return truths_[static_cast<std::size_t>(stage)].forwarded; }
  std::uint64_t backwarded(int stage) const { return truths_[static_cast<std::size_t>(stage)].backwarded; }
  std::uint64_t updates(int stage) const { return truths_[static_cast<std::size_t>(stage)].updates; }
  std::uint64_t stale() const { return stale_; }
  std::uint64_t averagings() const { return averagings_; }
  std::uint64_t snapshots() const { return snapshots_; }
  std::uint64_t entered(int stage) const { return truths_[static_cast<std::size_t>(stage)].entered; }
  std::uint64_t held(int stage) const { return truths_[static_cast<std::size_t>(stage)].held_round; }
  // A pass that was begun, and is an averaging one.
  bool averages(std::uint64_t pass) const {
    return pass < heads_.size() && heads_[pass].kind == wire::PassKind::kAverage;
  }
  // The same, and is sent to all others by the root.
  bool has_no_tensors(std::uint64_t pass) const {
    return averages(pass) || (pass < heads_.size() && heads_[pass].kind == wire::PassKind::kSnapshot);
  }
  // The stage has given to an averaging pass's round, and waits for it.
  bool is_averaging(int stage) const {
    const Truth& at = truths_[static_cast<std::size_t>(stage)];
    return averages(at.backwarded) && at.forwarded > at.backwarded && !at.averaged;
  }
  // What the root says of the pass.
  const wire::PassHead& head(std::uint64_t pass) const { return heads_[pass]; }

 private:
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  // What is known of one stage.
  struct Truth {
    std::uint64_t forwarded = 0;  // passes of any kind
    std::uint64_t backwarded = 0;
    std::uint64_t flagged = 0;  // of the latter, and averaging passes that were begun
    std::uint64_t updates = 0;
    bool averaged = false;              // the averaging pass in flight has had its update
    std::uint64_t round_due = 0;        // that the next update gives to
    std::uint64_t entered = 0;          // round: the last that it has given to
    std::uint64_t held_round = 0;       // the last that it has heard to hold
    std::uint64_t taken = 0;            // the last whose result it has taken in
    std::uint64_t checkpoint_due = 0;   // that the next update is followed by a snapshot for
    std::uint64_t last_checkpoint = 0;  // that it has taken a snapshot for
    std::uint64_t last_round_checkpoint = 0;
    std::uint64_t round_checkpoints = 0;  // taken
    std::uint64_t calls_entered = 0;
    std::uint64_t calls_over = 0;
    std::uint64_t calls_closed = 0;
    StageCounts counts;
    std::vector<std::uint64_t> version;  // by pass: updates at its forward
    std::vector<std::uint8_t> forwards;  // by pass: that came
    std::vector<std::uint8_t> answers;   // by pass: that came
    std::vector<std::uint8_t> ties;      // by pass or update: gradients that came
    std::vector<std::uint64_t> adopted;  // by keeper
    std::vector<std::uint32_t> held;     // by version: passes in flight that were begun with it
    std::uint64_t alive = 1;             // versions held, and the newest
  };

  Truth& truth(int stage) { return truths_[static_cast<std::size_t>(stage)]; }
  const StageOptions& options(int stage) const { return scenario_.stages[static_cast<std::size_t>(stage)]; }
  const Neighbours& neighbours(int stage, std::uint64_t pass) const;
  bool trains(std::uint64_t pass) const { return heads_[pass].kind == wire::PassKind::kTrain; }
  // The first pass that may still be in flight when this one begins.
  std::uint64_t first_beside(std::uint64_t pass) const;

  void root_begins(const wire::PassHead& head);
  void note_pass(const wire::PassHead& head);
  void offer_begins(const wire::PassHead& head, const Offer& offer);
  void forward_begins(int stage, const Work& work);
  void check_in_flight(int stage, std::uint64_t pass);
  void check_version(int stage, const wire::PassHead& head);
  void backward_begins(int stage, const Work& work);
  void update_begins(int stage, const Work& work);
  void check_round(const wire::PassHead& head);
  bool is_due(const Offer& offer) const;
  void check_mark(const wire::PassHead& head, const Offer& offer);
  void averaging_begins(const wire::PassHead& head);
  void check_rounds_of(int stage, const Work& work);
  void hold(Truth& truth, std::uint64_t version);
  void release(Truth& truth, std::uint64_t version);
  void check_versions(int stage);
  void all_done(int stage, const Stage& machine);

  const Scenario& scenario_;
  bool async_;
  std::uint64_t window_;
  bool spaced_;  // no two flagged passes fit into the window
  std::vector<Offer> offers_;
  std::vector<std::uint64_t> ends_of_calls_;  // in offers
  Neighbours to_all_;                         // of passes without tensors: the root's
  Neighbours from_root_;                      // those of the others

  // Since the root began them: passes that were offered, and those by which it averages.
  std::size_t offers_begun_ = 0;
  std::vector<wire::PassHead> heads_;
  std::vector<std::uint64_t> flags_;       // by count of passes: flagged among them, and averaging passes
  std::vector<std::uint64_t> other_kind_;  // by pass: passes before it up to the last one of another kind
  std::vector<std::uint64_t> batch_end_;   // by pass: passes up to the end of its batch
  std::vector<std::uint64_t> passes_of_calls_;
  std::uint64_t steps_ = 0;
  std::uint64_t averagings_ = 0;

  // Checkpoints.
  std::vector<std::uint64_t> checkpoints_;              // that the root has begun, in order
  std::map<std::uint64_t, std::uint64_t> taken_after_;  // by checkpoint: updates in the first stage's snapshot
  std::uint64_t snapshots_ = 0;

  // Rounds.
  std::vector<std::uint64_t> given_after_;  // by round: updates in the weights that the first stage gave
  std::uint64_t updates_since_round_ = 0;   // of passes that the root has begun
  std::uint64_t samples_since_round_ = 0;
  std::uint64_t round_samples_ = 0;  // of the last one
  std::optional<std::uint64_t> round_epoch_;
  std::uint64_t calls_ = 0;
  std::uint64_t updates_to_heed_ = 0;  // that may begin before the round that is called for; 0: none is
  bool drain_due_ = false;
  bool averaging_asked_ = false;

  std::vector<Truth> truths_;
  std::uint64_t stale_ = 0;
  std::string violation_;
  Promise promise_ = Promise::kNothingHangs;
};

}  // namespace ravnest::stage::simulation
