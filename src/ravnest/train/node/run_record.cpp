#include "ravnest/train/node/run_record.h"

#include <cmath>
#include <utility>

namespace ravnest::train {
namespace {

constexpr int kLossDecimals = 4;
constexpr int kAccuracyDecimals = 2;

// A line in a file that is begun with its first one, so that an earlier file is kept until there is something new.
Status append(std::optional<report::RecordFile>& file, const std::filesystem::path& path, double value, int decimals) {
  if (path.empty()) return {};
  if (!file) {
    auto begun = report::RecordFile::begin(path);
    if (!begun.ok()) return begun.status();
    file = std::move(*begun);
  }
  return file->append(value, decimals);
}

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

Status RunRecord::on_report(wire::Report report, std::string_view by) {
  const MutexLock lock(mutex_);
  if (expected_.empty()) return internal("the leaf reports on pass ", report.pass, ", which nobody asked for");
  const Expected expected = std::get<Expected>(expected_.front());
  expected_.pop_front();
  if (Status taken = take_in(expected, report, by.empty() ? options_.leaf : by); !taken.ok()) return taken;
  return end_sweeps();
}

// Those whose passes have all been reported.
Status RunRecord::end_sweeps() {
  while (!expected_.empty() && std::holds_alternative<Sweep>(expected_.front())) {
    const Sweep sweep = std::get<Sweep>(expected_.front());
    expected_.pop_front();
    if (Status ended = end_sweep(sweep); !ended.ok()) return ended;
  }
  return {};
}

Status RunRecord::take_in(const Expected& expected, wire::Report& report, std::string_view by) {
  const stage::Offer& offer = expected.offer;
  switch (offer.kind) {
    case wire::PassKind::kPredict: outputs_.push_back(std::move(report.outputs)); return {};
    case wire::PassKind::kAverage: return invalid("an averaging pass was reported");
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
  if (!offer.update) return checked;
  ++updates_;
  Status written = append(losses_, options_.loss_file, std::exchange(window_loss_, 0), kLossDecimals);
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
  accuracy_.reset();
  if (counted == 0) return {};
  accuracy_ = 100.0 * static_cast<double>(correct) / static_cast<double>(counted);
  if (sweep == Sweep::kEvaluation) return {};
  if (options_.progress) options_.progress->on_accuracy(*accuracy_, SystemClock().now());
  return append(accuracies_, options_.accuracy_file, *accuracy_, kAccuracyDecimals);
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
