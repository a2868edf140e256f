// One stage of a cluster as a state machine: which pass it computes next, and when.
//
// It holds no tensor, thread, clock or socket. Tell it what came (`on_...`), ask it what to do (`next`), do that, say
// that it is done (`done`). Whoever drives it keeps the messages that came; `Work` says which of them belong together.
//
// How a cluster works, whatever the schedule:
// - The root begins passes, as many at a time as its window has room for. Every stage takes them in that one order,
//   forwards and backwards alike, so that sums and buffers come out the same in every run.
// - Each Forward is answered by one Backward, with gradients or without, once the stage is through with the pass. So
//   when the root has all its answers, every stage has computed the pass, and the window bounds everyone's memory.
// - A stage prefers backwards to forwards: they free memory, and others wait for them. Stage s holds at most window - s
//   passes that train between their forward and their backward (kGpipe: any number), so its weights are at most
//   window - 1 - s updates old, and a leaf's are never old where the window is the number of stages.
// - Passes that train and passes that do not are never in flight together: validation sees the weights after all
//   passes before it.
// What the schedules add:
// - kAsync: nothing. The newest weights are used; nobody ever waits for an update.
// - kSync: passes of the next batch begin after the update of the last one. With a window of as many passes as there
//   are stages this is 1F1B with a flush.
// - kGpipe: as kSync, with all forwards of a batch before its backwards, and no window within a batch: where there is
//   room for its first pass, all of them begin.
// Where there are several clusters, they average their weights in rounds, one at a time; the root decides when this
// cluster's next one is due (`Rounds`), and all its stages take part with the weights after the same update:
// - kOverlap: a pass that trains is marked (PassHead::round). After its update every stage gives its weights as they
//   are, trains on, and takes the difference that the round makes in with the first update after it holds.
// - kDrain, and whenever the root is asked to (`average`): an averaging pass. It begins between two batches, when
//   nothing is in flight, and is done when the round holds; it counts as an update, so that whatever waits for updates
//   waits for it.
// The next round is not begun before the last one holds.
// For a checkpoint every stage takes a snapshot of its part after the same update. Nobody waits for it where the pass
// that the update follows is marked (PassHead::checkpoint). A snapshot pass is for the places between: it begins when
// nothing that trains is in flight, as validation does, and changes nothing. With other clusters a checkpoint is of all
// that have held a round: then the clusters say so when it holds, and the update is that of an averaging pass.
//
// Not thread-safe; one owner. What comes is checked: a message that does not fit is kInvalid and changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/stage/rounds.h"
#include "ravnest/wire/message.h"

namespace ravnest::stage {

enum class Schedule : std::uint8_t { kAsync, kSync, kGpipe };
std::string_view name(Schedule schedule);
Result<Schedule> parse_schedule(std::string_view written);  // "async", "sync", "gpipe"
// Whether gradients of tied weights are sent for each pass (their sums come out as in one process) or for each update.
constexpr bool ties_pass_by_pass(Schedule schedule) { return schedule != Schedule::kAsync; }

// The stages that send to this one and those that it sends to. Stages that get nothing else get an empty Forward from
// the root, so that all of them know of every pass; see `neighbours` in routes.h.
struct Neighbours {
  std::vector<int> producers;
  std::vector<int> consumers;

  bool operator==(const Neighbours&) const = default;
};

struct StageOptions {
  int index = 0;
  int count = 1;
  Schedule schedule = Schedule::kAsync;
  int window = 0;  // of the root: passes in flight; 0: as many as there are stages
  Neighbours train;
  Neighbours evaluate;            // of the passes that do not train
  std::vector<int> tied_users;    // stages that use weights kept here, and send their gradients
  std::vector<int> tied_keepers;  // stages that keep weights used here, and send their values
  Rounds rounds;                  // of the root

  bool operator==(const StageOptions&) const = default;
};

// A pass that the root is asked to begin.
struct Offer {
  wire::PassKind kind = wire::PassKind::kTrain;
  std::uint64_t batch = 0;
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  double weight = 1;
  bool update = true;
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;
  std::uint64_t digest = 0;
  std::uint64_t samples = 0;
  std::uint64_t checkpoint = 0;  // a snapshot pass's; or that of a pass which ends with an update; 0: none

  bool operator==(const Offer&) const = default;
};

enum class WorkKind : std::uint8_t {
  kForward,   // with the pass's Forwards from its producers; at the root with its offer. Averaging: the weights go in
  kBackward,  // with its Backwards from all consumers, and the tied users' gradients where they come pass by pass
  kAnswer,    // no work: the pass did not train, and its producers get empty Backwards
  kUpdate,    // the optimizer; with the tied users' gradients where they come update by update
  kAverage,   // an averaging pass's update: what the round makes of the weights is taken in
  kAdopt,     // values of tied weights, `number` of them from `from`
};

struct Work {
  WorkKind kind = WorkKind::kForward;
  wire::PassHead head;       // of all but kUpdate, kAverage and kAdopt
  std::uint64_t number = 0;  // kUpdate, kAverage: the update's; kAdopt: the updates that the values contain
  int from = 0;              // kAdopt
  std::uint64_t takes = 0;   // the round whose result is taken in, before all else but the optimizer's step; 0: none
  std::uint64_t gives = 0;   // kUpdate: the round that the weights go into afterwards; 0: none
  std::uint64_t checkpoint = 0;  // kUpdate, kAverage: the one that a snapshot is taken for, after all else; 0: none
};

struct StageCounts {
  std::uint64_t forwards = 0;  // that train
  std::uint64_t backwards = 0;
  std::uint64_t evaluated = 0;
  std::uint64_t updates = 0;
  std::uint64_t rounds = 0;         // between clusters, that were taken in
  std::uint64_t staleness_sum = 0;  // over backwards: updates since the pass's forward
  std::uint64_t staleness_most = 0;
  std::size_t in_flight_most = 0;  // passes that wait here for their backward

  bool operator==(const StageCounts&) const = default;
};

class Stage {
 public:
  explicit Stage(StageOptions options);

  bool is_root() const { return options_.index == 0; }
  bool is_leaf() const { return options_.index == options_.count - 1; }
  const StageOptions& options() const { return options_; }
  const Neighbours& neighbours(wire::PassKind kind) const;

  // -- what comes

  // Root: a pass to begin when there is room, after those offered before.
  void offer(const Offer& offer);
  Status on_forward(int from, const wire::PassHead& head);
  Status on_backward(int from, std::uint64_t pass);
  Status on_tied_gradients(int from, std::uint64_t number);
  Status on_tied_values(int from, std::uint64_t updates);
  // The cluster's round holds, and its result is there. Rounds are counted by the cluster itself, from 1; none holds
  // before this stage takes part in it.
  // `checkpoint`: an averaging pass that entered it is followed by a snapshot for this one; 0: by none.
  Status on_held(std::uint64_t round, std::uint64_t checkpoint = 0);
  // Root: another cluster asks for the next round: it is due with the next update. While one is under way it is that
  // one which is asked for, and here and in `join_round` nothing happens: to be said again as long as it is so.
  void call_round() { rounds_.call(); }
  // Root: an averaging pass, as soon as the batches that were begun are done and the last round holds.
  void average() { rounds_.ask_for_pass(); }
  // Root: other clusters hold a round which this one has to enter: by an averaging pass, unless a marked one is first.
  void join_round() { rounds_.join(); }

  // Root, before the first pass: so many that train have been computed in an earlier process.
  void go_on_after(std::uint64_t steps);

  // -- what to do

  // The next thing to do, if there is one. Each has to be done, and `done` be said, before the next is asked for.
  std::optional<Work> next();
  void done(const Work& work);

  // -- how it is

  bool ties_pass_by_pass() const { return stage::ties_pass_by_pass(options_.schedule); }
  // Root: offered and not begun.
  std::size_t waiting() const { return offers_.size(); }
  // Root: nothing is offered, in flight or left to do. Others: nothing is here.
  bool idle() const;
  const StageRounds& rounds() const { return rounds_; }
  // Root: what was offered waits for the last round to hold.
  bool waits_for_round() const;
  // Root: the passes that train among those begun, in this process and before.
  std::uint64_t steps() const { return next_step_; }
  std::uint64_t passes_begun() const { return next_forward_; }
  std::uint64_t passes_done() const { return next_backward_; }
  // The updates of all passes that are done are made, and weights that others keep contain them. A pass is answered
  // before its update is made, so the root may end a call before this is so.
  bool settled() const { return !update_due_ && updates_contained() >= updates_; }
  std::uint64_t updates() const { return updates_; }
  // Those that all weights used here contain, also the weights that others keep.
  std::uint64_t updates_contained() const;
  const StageCounts& counts() const { return counts_; }
  // Whether they would do the same from here on.
  bool operator==(const Stage&) const = default;

 private:
  struct Pass {
    std::optional<wire::PassHead> head;  // none: only tied gradients have come yet
    std::set<int> forwards_from;
    std::set<int> backwards_from;
    std::set<int> ties_from;
    bool forward_done = false;
    std::uint64_t version = 0;  // updates at the time of its forward

    bool operator==(const Pass&) const = default;
  };

  wire::PassHead begin_pass(wire::PassKind kind);
  bool gives_already(const wire::PassHead& head) const;
  void begin_averaging();
  bool trains(const Pass& pass) const { return pass.head->kind == wire::PassKind::kTrain; }
  int window() const;
  std::uint64_t most_in_flight() const;
  std::uint64_t counted_by_window(const wire::PassHead& head) const;
  bool root_may_begin(const Offer& offer) const;
  void begin_offered();
  bool may_forward(const Pass& pass) const;
  std::uint64_t adopted(int keeper) const;
  bool may_backward(const Pass& pass) const;
  bool may_update() const;
  std::optional<Work> next_adoption();
  std::optional<Work> next_backward();
  std::optional<Work> next_forward();
  void finish(std::uint64_t pass);
  void give_to(std::uint64_t round);
  void take_in(const Work& work);

  StageOptions options_;
  Neighbours without_tensors_;            // of passes that have none
  std::map<std::uint64_t, Pass> passes_;  // known and not finished
  std::uint64_t next_forward_ = 0;        // the pass whose forward comes next
  std::uint64_t next_backward_ = 0;       // the pass whose backward or answer comes next
  std::uint64_t updates_ = 0;
  bool update_due_ = false;
  std::uint64_t update_gives_ = 0;        // the round that the weights go into after the update that is due
  std::uint64_t update_checkpoint_ = 0;   // the checkpoint that a snapshot is taken for then
  bool averaging_ = false;                // an averaging pass waits for its round
  std::uint64_t average_checkpoint_ = 0;  // the checkpoint that a snapshot is taken for when it has it
  StageRounds rounds_;
  std::map<std::uint64_t, std::set<int>> update_ties_;  // by update: whose gradients came
  std::map<int, std::deque<std::uint64_t>> to_adopt_;   // by keeper
  std::map<int, std::uint64_t> adopted_;                // by keeper: the updates that its values contain
  std::uint64_t batches_forwarded_ = 0;                 // whole ones that train
  std::uint64_t batches_backwarded_ = 0;
  bool working_ = false;
  StageCounts counts_;

  // Of the root.
  std::deque<Offer> offers_;
  std::uint64_t next_step_ = 0;
  std::uint64_t training_in_flight_ = 0;
  std::uint64_t evaluating_in_flight_ = 0;
  std::uint64_t updates_everywhere_ = 0;  // that every stage has made or is about to
  bool flushing_ = false;                 // the last training pass begun is followed by an update
  bool within_batch_ = false;             // the same pass is not the last of its batch
  bool averaging_in_flight_ = false;
};

}  // namespace ravnest::stage
