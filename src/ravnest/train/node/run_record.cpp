#include "ravnest/train/node/run_record.h"

#include <cmath>
#include <utility>

namespace ravnest::train {
namespace {

constexpr int kLossDecimals = 4;
constexpr int kAccuracyDecimals = 2;

// However the platform writes it.
const char* no_number(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

}  // namespace

void RunRecord::begin_training(std::uint64_t first, std::uint64_t epochs, std::uint64_t batches_per_epoch) {
  const MutexLock lock(mutex_);
  first_epoch_ = first;
  bad_losses_ = {};
  finite_ = true;
  warned_in_epoch_.reset();
  if (options_.progress) options_.progress->begin(epochs, batches_per_epoch, SystemClock().now());
}

void RunRecord::end_training() {
  if (options_.progress) options_.progress->finish(SystemClock().now());
}

void RunRecord::stop_at_nan(bool stop) {
  const MutexLock lock(mutex_);
  stop_at_nan_ = stop;
}

void RunRecord::expect(const stage::Offer& offer, std::uint64_t samples) {
  const MutexLock lock(mutex_);
  expected_.emplace_back(Expected{offer, samples});
}

void RunRecord::retract() {
  const MutexLock lock(mutex_);
  if (!expected_.empty()) expected_.pop_back();
}

Status RunRecord::expect_end(Sweep sweep) {
  const MutexLock lock(mutex_);
  expected_.emplace_back(sweep);
  return end_sweeps();
}

Status RunRecord::expect_checkpoint(std::uint64_t checkpoint) {
  const MutexLock lock(mutex_);
  expected_.emplace_back(checkpoint);
  return end_sweeps();
}

void RunRecord::go_on(const RecordMark& mark) {
  const MutexLock lock(mutex_);
  goes_on_ = true;
  updates_ = mark.updates;
  accuracy_lines_ = mark.accuracies;
  window_loss_ = mark.window_loss;
  accuracy_ = mark.accuracy;
  behind_ = mark;
  behind_.accuracy.reset();
}

void RunRecord::remember(std::uint64_t trained) {
  const MutexLock lock(mutex_);
  remember_ = trained;
  remembered_.reset();
  keep_as_.reset();
  remember_now();
}

void RunRecord::keep_as(std::uint64_t checkpoint) {
  const MutexLock lock(mutex_);
  keep_as_ = checkpoint;
  remember_now();
}

void RunRecord::remember_now() {
  if (!remembered_ && behind_.trained == remember_) remembered_ = behind_;
  if (!remembered_ || !keep_as_) return;
  if (remembered_->accuracy) accuracy_is_new_ = false;
  mark_ = {*std::exchange(keep_as_, std::nullopt), *remembered_};
}

// Its last pass was reported.
void RunRecord::end_batch() {
  behind_ = {updates_, accuracy_lines_, window_loss_, accuracy_is_new_ ? accuracy_ : std::nullopt, behind_.trained + 1};
  remember_now();
}

RecordMark RunRecord::mark_now() const {
  RecordMark mark{updates_, accuracy_lines_, window_loss_, std::nullopt};
  if (validated_ == updates_) mark.accuracy = accuracy_;
  return mark;
}

std::optional<RecordMark> RunRecord::mark(std::uint64_t checkpoint) const {
  const MutexLock lock(mutex_);
  return mark_ && mark_->first == checkpoint ? std::optional(mark_->second) : std::nullopt;
}

// A file is begun with its first line, so that an earlier one is kept until there is something new.
Status RunRecord::append(std::optional<report::RecordFile>& file, const std::filesystem::path& path, double value,
                         int decimals, std::uint64_t lines_before) {
  if (path.empty()) return {};
  if (!file) {
    auto begun = goes_on_ ? report::RecordFile::go_on(path, lines_before) : report::RecordFile::begin(path);
    // A run that goes on where its files are not, or are another's, begins new ones.
    if (!begun.ok() && goes_on_ && begun.status().code() == Code::kInvalid) {
      if (options_.warn) options_.warn(text(begun.status().message(), "; a new one is begun"));
      begun = report::RecordFile::begin(path);
    }
    if (!begun.ok()) return begun.status();
    file = std::move(*begun);
  }
  return file->append(value, decimals);
}

Status RunRecord::on_report(wire::Report report, std::string_view by) {
  const MutexLock lock(mutex_);
  if (expected_.empty()) return internal("the leaf reports on pass ", report.pass, ", which nobody asked for");
  const Expected expected = std::get<Expected>(expected_.front());
  expected_.pop_front();
  if (Status taken = take_in(expected, report, by.empty() ? options_.leaf : by); !taken.ok()) return taken;
  return end_sweeps();
}

// Those whose passes have all been reported, and checkpoints behind them.
Status RunRecord::end_sweeps() {
  while (!expected_.empty() && !std::holds_alternative<Expected>(expected_.front())) {
    const auto over = expected_.front();
    expected_.pop_front();
    if (const auto* checkpoint = std::get_if<std::uint64_t>(&over)) {
      mark_ = {*checkpoint, mark_now()};
    } else if (Status ended = end_sweep(std::get<Sweep>(over)); !ended.ok()) {
      return ended;
    }
  }
  return {};
}

Status RunRecord::take_in(const Expected& expected, wire::Report& report, std::string_view by) {
  const stage::Offer& offer = expected.offer;
  switch (offer.kind) {
    case wire::PassKind::kPredict: outputs_.push_back(std::move(report.outputs)); return {};
    case wire::PassKind::kAverage:
    case wire::PassKind::kSnapshot: return invalid("a pass without tensors was reported");
    case wire::PassKind::kValidate:
      counted_ += report.samples;
      correct_ += report.correct;
      return {};
    case wire::PassKind::kTrain: break;
  }
  samples_trained_ += expected.samples;
  window_loss_ += report.loss * offer.weight;
  if (options_.progress)
    options_.progress->on_loss(offer.epoch - first_epoch_ + 1, offer.index + 1, expected.samples, report.loss,
                               SystemClock().now());
  const Status checked = check_loss(expected, report.loss, by);
  const bool ends_batch = offer.part + 1 == offer.parts;
  if (!offer.update) {
    if (ends_batch) end_batch();
    return checked;
  }
  ++updates_;
  Status written = append(losses_, options_.loss_file, std::exchange(window_loss_, 0), kLossDecimals, updates_ - 1);
  if (ends_batch) end_batch();
  if (offer.checkpoint > 0) mark_ = {offer.checkpoint, mark_now()};
  return checked.ok() ? written : checked;
}

// A line when it begins; at most one per epoch, since some losses come and go.
Status RunRecord::check_loss(const Expected& expected, double loss, std::string_view by) {
  const bool begins = std::exchange(finite_, std::isfinite(loss)) && !finite_;
  if (finite_) return {};
  const std::uint64_t step = updates_ + 1;
  if (bad_losses_.steps == 0) bad_losses_.first = step;
  if (bad_losses_.steps == 0 || bad_losses_.last != step) ++bad_losses_.steps;
  bad_losses_.last = step;
  const stage::Offer& offer = expected.offer;
  const std::string sentence =
      text("the loss that ", by, " computed in step ", step, " (epoch ", offer.epoch - first_epoch_ + 1, ", batch ",
           offer.index + 1, ") is ", no_number(loss));
  if (stop_at_nan_) return invalid(sentence, ", and stop_at_nan ends the run there");
  if (begins && warned_in_epoch_ != offer.epoch && options_.warn) {
    warned_in_epoch_ = offer.epoch;
    options_.warn(sentence);
  }
  return {};
}

Status RunRecord::end_sweep(Sweep sweep) {
  const std::uint64_t counted = std::exchange(counted_, 0);
  const std::uint64_t correct = std::exchange(correct_, 0);
  validated_ = updates_;
  accuracy_.reset();
  if (counted == 0) return {};
  accuracy_is_new_ = sweep == Sweep::kValidation;
  accuracy_ = 100.0 * static_cast<double>(correct) / static_cast<double>(counted);
  if (sweep == Sweep::kEvaluation) return {};
  if (options_.progress) options_.progress->on_accuracy(*accuracy_, SystemClock().now());
  return append(accuracies_, options_.accuracy_file, *accuracy_, kAccuracyDecimals, accuracy_lines_++);
}

std::optional<double> RunRecord::accuracy() const {
  const MutexLock lock(mutex_);
  return accuracy_;
}

std::uint64_t RunRecord::samples_trained() const {
  const MutexLock lock(mutex_);
  return samples_trained_;
}

report::BadLosses RunRecord::bad_losses() const {
  const MutexLock lock(mutex_);
  return bad_losses_;
}

std::vector<std::vector<wire::Tensor>> RunRecord::take_outputs() {
  const MutexLock lock(mutex_);
  return std::exchange(outputs_, {});
}

}  // namespace ravnest::train
