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
#include "ravnest/wire/message.h"

namespace ravnest::pipeline {

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

  bool operator==(const Offer&) const = default;
};

enum class WorkKind : std::uint8_t {
  kForward,   // with the pass's Forwards from `train.producers` or `evaluate.producers`; at the root with its offer
  kBackward,  // with its Backwards from all consumers, and the tied users' gradients where they come pass by pass
  kAnswer,    // no work: the pass did not train, and its producers get empty Backwards
  kUpdate,    // the optimizer; with the tied users' gradients where they come update by update
  kAdopt,     // values of tied weights, `number` of them from `from`
};

struct Work {
  WorkKind kind = WorkKind::kForward;
  wire::PassHead head;       // of all but kUpdate and kAdopt
  std::uint64_t number = 0;  // kUpdate: the update's; kAdopt: the updates that the values contain
  int from = 0;              // kAdopt
};

struct StageCounts {
  std::uint64_t forwards = 0;  // that train
  std::uint64_t backwards = 0;
  std::uint64_t evaluated = 0;
  std::uint64_t updates = 0;
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

  // -- what comes

  // Root: a pass to begin when there is room, after those offered before.
  void offer(const Offer& offer);
  Status on_forward(int from, const wire::PassHead& head);
  Status on_backward(int from, std::uint64_t pass);
  Status on_tied_gradients(int from, std::uint64_t number);
  Status on_tied_values(int from, std::uint64_t updates);
  // Not the root: the root's call is over, after so many passes of all calls. All of them are done here, since the root
  // has their answers (`done` is said before an answer is sent); passes of the next call may have come before this.
  Status on_over(std::uint64_t passes);

  // -- what to do

  // The next thing to do, if there is one. Each has to be done, and `done` be said, before the next is asked for.
  std::optional<Work> next();
  void done(const Work& work);

  // -- how it is

  bool ties_pass_by_pass() const { return pipeline::ties_pass_by_pass(options_.schedule); }
  // Root: offered and not begun.
  std::size_t waiting() const { return offers_.size(); }
  // Root: nothing is offered, in flight or left to do. Others: nothing is here.
  bool idle() const;
  // Not the root: as many calls of the root's as were over when all before them was done here.
  std::uint64_t calls_over() const { return calls_over_; }
  std::uint64_t passes_begun() const { return next_forward_; }
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

  const Neighbours& neighbours(wire::PassKind kind) const;
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
  void close_calls();

  StageOptions options_;
  std::map<std::uint64_t, Pass> passes_;  // known and not finished
  std::uint64_t next_forward_ = 0;        // the pass whose forward comes next
  std::uint64_t next_backward_ = 0;       // the pass whose backward or answer comes next
  std::uint64_t updates_ = 0;
  bool update_due_ = false;
  std::map<std::uint64_t, std::set<int>> update_ties_;  // by update: whose gradients came
  std::map<int, std::deque<std::uint64_t>> to_adopt_;   // by keeper
  std::map<int, std::uint64_t> adopted_;                // by keeper: the updates that its values contain
  std::uint64_t batches_forwarded_ = 0;                 // whole ones that train
  std::uint64_t batches_backwarded_ = 0;
  std::uint64_t overs_ = 0;  // calls that the root has ended, and an update or adoption here has not
  std::uint64_t last_over_ = 0;
  std::uint64_t calls_over_ = 0;
  bool working_ = false;
  StageCounts counts_;

  // Of the root.
  std::deque<Offer> offers_;
  std::uint64_t next_step_ = 0;
  std::uint64_t training_in_flight_ = 0;
  std::uint64_t evaluating_in_flight_ = 0;
  std::uint64_t updates_everywhere_ = 0;  // that every stage has made or is about to
  bool flushing_ = false;                 // the last training pass begun is followed by an update
};

}  // namespace ravnest::pipeline
