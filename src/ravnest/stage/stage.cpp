#include "ravnest/stage/stage.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ravnest/base/check.h"

namespace ravnest::stage {
namespace {

using wire::PassHead;
using wire::PassKind;

bool contains(const std::vector<int>& stages, int stage) { return std::ranges::find(stages, stage) != stages.end(); }

bool ends_batch(const PassHead& head) { return head.part + 1 == head.parts; }

bool averages(const PassHead& head) { return head.kind == PassKind::kAverage; }

// A snapshot is of the weights after an update: in the middle of a batch stages could not agree on one.
bool has_its_checkpoint(const PassHead& head) {
  if (head.kind == PassKind::kSnapshot) return head.checkpoint > 0;
  return head.checkpoint == 0 || (head.kind == PassKind::kTrain && head.update);
}

}  // namespace

Stage::Stage(StageOptions options) : options_(std::move(options)), rounds_(options_.rounds) {
  if (!is_root()) {
    without_tensors_.producers = {0};
    return;
  }
  for (int stage = 1; stage < options_.count; ++stage) without_tensors_.consumers.push_back(stage);
}

const Neighbours& Stage::neighbours(PassKind kind) const {
  switch (kind) {
    case PassKind::kTrain: return options_.train;
    case PassKind::kAverage:
    case PassKind::kSnapshot: return without_tensors_;
    case PassKind::kValidate:
    case PassKind::kPredict: break;
  }
  return options_.evaluate;
}

std::uint64_t Stage::most_in_flight() const {
  if (options_.schedule == Schedule::kGpipe) return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(std::max(window() - options_.index, 1));
}

int Stage::window() const { return options_.window > 0 ? options_.window : options_.count; }

// In gpipe the passes of a batch count as its first one.
std::uint64_t Stage::counted_by_window(const PassHead& head) const {
  const bool whole_batch = options_.schedule == Schedule::kGpipe && head.kind == PassKind::kTrain;
  return head.pass - (whole_batch ? std::min<std::uint64_t>(head.part, head.pass) : 0);
}

void Stage::go_on_after(std::uint64_t steps) {
  RAVNEST_CHECK(counts_.forwards == 0, "a stage goes on after ", steps, " steps when it has computed ",
                counts_.forwards, " passes");
  next_step_ = steps;
}

// -- what comes

void Stage::offer(const Offer& offer) { offers_.push_back(offer); }

Status Stage::on_forward(int from, const PassHead& head) {
  if (!contains(neighbours(head.kind).producers, from)) {
    return invalid("a forward of pass ", head.pass, " came from stage ", from, ", which sends none here");
  }
  const auto known = passes_.find(head.pass);
  if (head.pass < next_forward_ || (known != passes_.end() && known->second.forwards_from.contains(from))) {
    return invalid("a second forward of pass ", head.pass, " came from stage ", from);
  }
  if (head.parts == 0 || head.part >= head.parts) {
    return invalid("a forward of pass ", head.pass, " says that it is part ", head.part, " of ", head.parts);
  }
  if (!has_its_checkpoint(head)) {
    return invalid("a forward of pass ", head.pass, " is for checkpoint ", head.checkpoint,
                   ", which passes of its kind are not");
  }
  if (Status fits = rounds_.check(head); !fits.ok()) return fits;
  if (gives_already(head)) {
    return invalid("a forward of pass ", head.pass, " says that it takes part in round ", head.round,
                   ", which another pass does");
  }
  const std::uint64_t counted = counted_by_window(head);
  // The root begins a pass when it has the answers to all but `window - 1` before it, and this stage answered those
  // itself: one that is further ahead was never begun. Without this a peer could fill the memory here.
  if (counted >= next_backward_ + static_cast<std::uint64_t>(window())) {
    return invalid("a forward of pass ", head.pass, " came from stage ", from, " while pass ", next_backward_,
                   " is still in flight, though the window is ", window());
  }
  // All producers pass on what the root decided of the pass. Stages that acted on two heads would make different
  // updates, or draw different random numbers, and nothing would show it.
  if (known != passes_.end() && known->second.head && *known->second.head != head) {
    return invalid("stage ", from, " says something else of pass ", head.pass, " than others did");
  }
  if (known != passes_.end() && !known->second.ties_from.empty() && head.kind != PassKind::kTrain) {
    return invalid("stage ", from, " says that pass ", head.pass, " does not train, but gradients of it have come");
  }
  Pass& pass = passes_[head.pass];
  pass.head = head;
  pass.forwards_from.insert(from);
  return {};
}

Status Stage::on_backward(int from, std::uint64_t number) {
  const auto found = passes_.find(number);
  if (found == passes_.end() || !found->second.forward_done) {
    return invalid("an answer to pass ", number, " came from stage ", from, ", but that pass does not wait for one");
  }
  Pass& pass = found->second;
  if (!contains(neighbours(pass.head->kind).consumers, from)) {
    return invalid("an answer to pass ", number, " came from stage ", from, ", which was sent nothing");
  }
  if (!pass.backwards_from.insert(from).second) {
    return invalid("a second answer to pass ", number, " came from stage ", from);
  }
  return {};
}

Status Stage::on_tied_gradients(int from, std::uint64_t number) {
  const bool by_pass = ties_pass_by_pass();
  const std::uint64_t first = by_pass ? next_backward_ : updates_;
  // A user is never further ahead than passes can be in flight. In gpipe a whole batch may be, of any number of passes.
  const bool beyond = options_.schedule != Schedule::kGpipe && number - first >= static_cast<std::uint64_t>(window());
  const auto known = by_pass ? passes_.find(number) : passes_.end();
  const bool untrained = known != passes_.end() && known->second.head && !trains(known->second);
  const bool averaged = !by_pass && averaging_ && number == updates_;  // that update has no gradients
  if (number < first || beyond || untrained || averaged || !contains(options_.tied_users, from)) {
    return invalid("gradients of tied weights came from stage ", from, " for ", by_pass ? "pass " : "update ", number,
                   ", where none are waited for");
  }
  std::set<int>& came = by_pass ? passes_[number].ties_from : update_ties_[number];
  if (!came.insert(from).second) {
    return invalid("gradients of tied weights came twice from stage ", from, " for ", by_pass ? "pass " : "update ",
                   number);
  }
  return {};
}

Status Stage::on_tied_values(int from, std::uint64_t updates) {
  if (!contains(options_.tied_keepers, from)) {
    return invalid("values of tied weights came from stage ", from, ", which keeps none that are used here");
  }
  const auto waiting = to_adopt_.find(from);
  const std::uint64_t before =
      waiting == to_adopt_.end() || waiting->second.empty() ? adopted(from) : waiting->second.back();
  // The keeper sends its values after every update, and messages of one peer keep their order. A gap would make
  // `updates_contained` say that updates are here which are not.
  if (updates != before + 1) {
    return invalid("values of tied weights after ", updates, " updates came from stage ", from,
                   ", the last were after ", before);
  }
  to_adopt_[from].push_back(updates);
  return {};
}

// -- what to do

std::optional<Work> Stage::next() {
  RAVNEST_CHECK(!working_, "a stage was asked for work before the last was done");
  // What others wait for goes first: forwards need adopted values, a backward needs the update before it to be made,
  // and a backward frees memory where a forward takes some.
  std::optional<Work> work = next_adoption();
  if (!work && may_update()) {
    work = Work{.kind = averaging_ ? WorkKind::kAverage : WorkKind::kUpdate,
                .head = {},
                .number = updates_,
                .takes = rounds_.to_take(),
                .gives = update_gives_,
                .checkpoint = averaging_ ? average_checkpoint_ : update_checkpoint_};
  }
  if (!work) work = next_backward();
  if (!work) work = next_forward();
  working_ = work.has_value();
  return work;
}

std::optional<Work> Stage::next_adoption() {
  for (const auto& [keeper, waiting] : to_adopt_) {
    if (!waiting.empty()) return Work{.kind = WorkKind::kAdopt, .head = {}, .number = waiting.front(), .from = keeper};
  }
  return std::nullopt;
}

bool Stage::may_update() const {
  if (averaging_) return rounds_.is_over();
  if (!update_due_) return false;
  // The root knew before this stage that the last round holds. This stage has to know, too: the result of that round
  // goes into the weights that it gives to the next one.
  if (!rounds_.may_give_to(update_gives_)) return false;
  if (ties_pass_by_pass() || options_.tied_users.empty()) return true;
  const auto came = update_ties_.find(updates_);
  return came != update_ties_.end() && came->second.size() == options_.tied_users.size();
}

std::optional<Work> Stage::next_backward() {
  const auto found = passes_.find(next_backward_);
  if (found == passes_.end() || !may_backward(found->second)) return std::nullopt;
  const Pass& pass = found->second;
  return Work{.kind = trains(pass) ? WorkKind::kBackward : WorkKind::kAnswer, .head = *pass.head};
}

bool Stage::may_backward(const Pass& pass) const {
  if (!pass.forward_done) return false;
  if (pass.backwards_from.size() != neighbours(pass.head->kind).consumers.size()) return false;
  // Answered when the round is taken in: so when the root has all answers, the weights of all stages are the round's.
  if (averages(*pass.head)) return !averaging_;
  if (!trains(pass)) return true;
  if (update_due_) return false;  // its gradients belong to the next update, and would be lost in this one
  if (ties_pass_by_pass() && pass.ties_from.size() != options_.tied_users.size()) return false;
  // In gpipe no backward begins before the last forward of its batch is done here.
  return options_.schedule != Schedule::kGpipe || batches_forwarded_ > batches_backwarded_;
}

std::optional<Work> Stage::next_forward() {
  if (is_root()) begin_offered();
  const auto found = passes_.find(next_forward_);
  if (found == passes_.end() || !may_forward(found->second)) return std::nullopt;
  const PassHead& head = *found->second.head;
  return Work{.kind = WorkKind::kForward, .head = head, .takes = averages(head) ? rounds_.to_take() : 0};
}

bool Stage::may_forward(const Pass& pass) const {
  if (!pass.head || pass.forwards_from.size() != neighbours(pass.head->kind).producers.size()) return false;
  // The root says how many updates the pass has to see. Messages of different stages overtake each other, so the pass
  // may be here before the backward whose update it waits for.
  if (updates_ < pass.head->updates) return false;
  if (trains(pass) && next_forward_ - next_backward_ >= most_in_flight()) return false;
  if (averages(*pass.head) && !rounds_.may_give_to(pass.head->round)) return false;  // as in `may_update`
  return std::ranges::all_of(options_.tied_keepers, [&](int keeper) { return adopted(keeper) >= pass.head->updates; });
}

std::uint64_t Stage::adopted(int keeper) const {
  const auto found = adopted_.find(keeper);
  return found == adopted_.end() ? 0 : found->second;
}

bool Stage::root_may_begin(const Offer& offer) const {
  const auto most = static_cast<std::uint64_t>(window());
  // Offers keep their order: one that may not begin holds up those behind it, whatever they are.
  if (offer.kind != PassKind::kTrain) return training_in_flight_ == 0 && evaluating_in_flight_ < most;
  if (evaluating_in_flight_ > 0) return false;
  if (rounds_.is_due(offer) && !rounds_.is_over()) return false;
  if (options_.schedule == Schedule::kAsync) return training_in_flight_ < most;
  // An answer is sent before the update that follows it. It is `updates` in the next pass's head that makes each stage
  // wait for its own.
  if (flushing_ && training_in_flight_ > 0) return false;
  return training_in_flight_ < most || (options_.schedule == Schedule::kGpipe && offer.part > 0);
}

PassHead Stage::begin_pass(PassKind kind) {
  const bool training = kind == PassKind::kTrain;
  ++(training ? training_in_flight_ : evaluating_in_flight_);
  // Random numbers are drawn by step. Passes that do not train use none up: training draws the same with validation in
  // between as without.
  return {.pass = next_forward_,
          .kind = kind,
          .step = training ? next_step_++ : next_step_,
          .updates = updates_everywhere_};
}

void Stage::begin_offered() {
  if (passes_.contains(next_forward_) && passes_.at(next_forward_).head) return;  // the last one waits for an update
  if (averaging_in_flight_) return;
  // Not between the passes of one batch: their gradients are summed, and belong to one update.
  if (rounds_.wants_pass() && !within_batch_) return begin_averaging();
  if (offers_.empty() || !root_may_begin(offers_.front())) return;
  const Offer offer = offers_.front();
  offers_.pop_front();
  PassHead head = begin_pass(offer.kind);
  head.batch = offer.batch;
  head.part = offer.part;
  head.parts = offer.parts;
  head.weight = offer.weight;
  head.update = offer.kind == PassKind::kTrain && offer.update;
  head.epoch = offer.epoch;
  head.index = offer.index;
  head.digest = offer.digest;
  head.checkpoint = offer.checkpoint;
  if (offer.kind == PassKind::kTrain) {
    flushing_ = offer.update;
    within_batch_ = !ends_batch(head);
    head.round = rounds_.begin(offer);
  }
  passes_[next_forward_].head = head;
}

void Stage::done(const Work& work) {
  RAVNEST_CHECK(working_, "a stage was told that work is done which it did not ask for");
  working_ = false;
  switch (work.kind) {
    case WorkKind::kForward: {
      Pass& pass = passes_.at(work.head.pass);
      pass.forward_done = true;
      pass.version = updates_;
      ++next_forward_;
      if (trains(pass) && ends_batch(work.head)) ++batches_forwarded_;
      if (averages(work.head)) {
        take_in(work);
        averaging_ = true;
        give_to(work.head.round);
        break;
      }
      if (work.head.kind == PassKind::kSnapshot) break;
      ++(trains(pass) ? counts_.forwards : counts_.evaluated);
      counts_.in_flight_most = std::max<std::size_t>(counts_.in_flight_most, next_forward_ - next_backward_);
      break;
    }
    case WorkKind::kBackward: {
      const std::uint64_t staleness = updates_ - passes_.at(work.head.pass).version;
      counts_.staleness_sum += staleness;
      counts_.staleness_most = std::max(counts_.staleness_most, staleness);
      ++counts_.backwards;
      if (ends_batch(work.head)) ++batches_backwarded_;
      update_due_ = work.head.update;
      update_gives_ = work.head.round;
      update_checkpoint_ = work.head.checkpoint;
      finish(work.head.pass);
      break;
    }
    case WorkKind::kAnswer: finish(work.head.pass); break;
    case WorkKind::kUpdate:
      update_ties_.erase(updates_);
      ++updates_;
      ++counts_.updates;
      update_due_ = false;
      take_in(work);
      if (work.gives > 0) give_to(work.gives);
      update_gives_ = 0;
      update_checkpoint_ = 0;
      break;
    case WorkKind::kAverage:
      ++updates_;
      averaging_ = false;
      average_checkpoint_ = 0;
      take_in(work);
      break;
    case WorkKind::kAdopt:
      to_adopt_.at(work.from).pop_front();
      adopted_[work.from] = work.number;
      break;
  }
}

// Passes are finished in the order in which they began: so two numbers say which are in flight.
void Stage::finish(std::uint64_t number) {
  const auto pass = passes_.find(number);
  RAVNEST_CHECK(number == next_backward_ && pass != passes_.end(), "pass ", number, " is finished in place of ",
                next_backward_);
  RAVNEST_CHECK(next_backward_ < next_forward_, "pass ", number, " is finished before its forward");
  // Every stage has answered. Where an update follows, each of them makes it before anything that may need it.
  if (is_root()) {
    if (trains(pass->second)) {
      --training_in_flight_;
      if (pass->second.head->update) ++updates_everywhere_;
    } else {
      --evaluating_in_flight_;
      if (averages(*pass->second.head)) {
        averaging_in_flight_ = false;
        ++updates_everywhere_;
      }
    }
  }
  passes_.erase(pass);
  ++next_backward_;
}

std::uint64_t Stage::updates_contained() const {
  std::uint64_t contained = updates_;
  for (const int keeper : options_.tied_keepers) contained = std::min(contained, adopted(keeper));
  return contained;
}

bool Stage::idle() const {
  const bool adopting = std::ranges::any_of(to_adopt_, [](const auto& waiting) { return !waiting.second.empty(); });
  return !working_ && offers_.empty() && passes_.empty() && !update_due_ && update_ties_.empty() && !adopting &&
         !rounds_.wants_pass();
}

}  // namespace ravnest::stage
