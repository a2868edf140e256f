#include "ravnest/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"

namespace ravnest::report {
namespace {

constexpr int kUsualColumns = 80;
constexpr std::string_view kToLineStart = "\r";
constexpr std::string_view kEraseRest = "\x1b[K";

}  // namespace

std::function<int()> terminal_columns(int descriptor) {
  if (::isatty(descriptor) == 0) return {};
  return [descriptor] {
    winsize size{};
    const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? static_cast<int>(size.ws_col) : kUsualColumns;
  };
}

Progress::Progress(std::ostream& out, ProgressOptions options)
    : options_(std::move(options)), out_(out), recent_(options_.recent) {}

Progress::~Progress() {
  if (!bar_.empty()) write("\n");
}

void Progress::begin(std::uint64_t epochs, std::uint64_t batches_per_epoch, TimePoint now) {
  const MutexLock lock(mutex_);
  epochs_ = epochs;
  batches_ = batches_per_epoch;
  learns_batches_ = batches_per_epoch == 0;
  running_ = true;
  line_due_ = false;
  first_.reset();
  last_ = {.at = now};
  now_ = now;
  accuracy_.reset();
  recent_ = Recent(options_.recent);
  recent_.restart(now);
  shown_.reset();
  if (on_terminal()) {
    show(now);
  } else {
    shown_ = now;  // the first ten seconds of an epoch count from here
  }
}

void Progress::on_loss(std::uint64_t epoch, std::uint64_t batch, std::uint64_t samples, double loss, TimePoint now) {
  const MutexLock lock(mutex_);
  if (!running_) return;
  if (epoch != last_.epoch) {
    if (learns_batches_) batches_ = last_.batch;
    if (line_due_) print_line();
  }
  last_ = {epoch, batch, now};
  if (!first_) first_ = last_;
  // An epoch that is longer than it should be is of unknown length.
  if (batch > batches_) {
    batches_ = 0;
    learns_batches_ = true;
  }
  now_ = now;
  line_due_ = true;
  recent_.add(samples, loss, now);
  if (on_terminal() || !epoch_is_over()) show(now);
}

void Progress::on_accuracy(double percent, TimePoint now) {
  const MutexLock lock(mutex_);
  if (!running_) return;
  accuracy_ = percent;
  now_ = now;
  recent_.restart(now);
  if (on_terminal()) {
    show(now);
  } else if (line_due_ && epoch_is_over()) {
    print_line();
    line_due_ = false;
  }
}

void Progress::finish(TimePoint now) {
  const MutexLock lock(mutex_);
  if (!running_) return;
  now_ = now;
  running_ = false;
  if (on_terminal()) {
    draw();
    write("\n");
    bar_.clear();
  } else if (line_due_) {
    print_line();
  }
}

void Progress::above(std::string_view line) {
  const MutexLock lock(mutex_);
  if (bar_.empty()) return write(printable(line) + "\n");
  write(text(kToLineStart, printable(line), kEraseRest, "\n", bar_, kEraseRest));
}

ProgressFacts Progress::facts() const {
  const MutexLock lock(mutex_);
  return facts_now();
}

ProgressFacts Progress::facts_now() const {
  return {.epoch = last_.epoch,
          .epochs = epochs_,
          .batch = last_.batch,
          .batches = batches_,
          .loss = recent_.loss(),
          .accuracy = accuracy_,
          .samples_per_s = recent_.samples_per_s(),
          .seconds_left = running_ ? seconds_left() : std::nullopt};
}

// By the pace since the first batch, validations included; what came before that batch happens once.
std::optional<double> Progress::seconds_left() const {
  if (!first_ || batches_ == 0 || epochs_ == 0) return std::nullopt;
  const auto place = [&](const Position& position) RAVNEST_REQUIRES(mutex_) {
    return (static_cast<double>(position.epoch) - 1) * static_cast<double>(batches_) +
           static_cast<double>(position.batch);
  };
  const double done = place(last_) - place(*first_);
  const double seconds = std::chrono::duration<double>(now_ - first_->at).count();
  if (done <= 0 || seconds <= 0) return std::nullopt;
  const double left = static_cast<double>(epochs_) * static_cast<double>(batches_) - place(last_);
  return std::max(0.0, left) * seconds / done;
}

void Progress::show(TimePoint now) {
  const Duration between = on_terminal() ? options_.between_drawings : options_.between_lines;
  if (shown_ && now - *shown_ < between) return;
  if (!on_terminal()) return print_line();
  draw();
  shown_ = now;
}

void Progress::draw() {
  // The last column stays free: some terminals begin a new line when it is written to.
  bar_ = bar_line(facts_now(), options_.columns() - 1);
  write(text(kToLineStart, bar_, kEraseRest));
}

void Progress::print_line() {
  write(plain_line(facts_now()) + "\n");
  shown_ = now_;
}

void Progress::write(std::string_view bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out_.flush();
}

}  // namespace ravnest::report
