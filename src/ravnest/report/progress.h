// Shows on the root how far training is.
//
// On a terminal: one line with a bar, rewritten at most ten times a second. Elsewhere: a line per epoch, once it is
// known how it ended (after its validation, or with the next epoch), and one every ten seconds within a long epoch.
//
//   Progress progress(std::cerr, {.columns = terminal_columns(STDERR_FILENO)});
//   progress.begin(10, 17, clock.now());
//   progress.on_loss(1, 1, 64, loss, clock.now());  // ... for each batch
//   progress.finish(clock.now());
//
// Safe from any thread; each call writes at most once, whole. It asks no clock: all times are the caller's, and never
// go back. That a line could not be written is nobody's failure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/report/progress_line.h"
#include "ravnest/report/recent.h"

namespace ravnest::report {

// How to ask the terminal behind a descriptor for its columns (80 where it does not know); empty where it is none.
std::function<int()> terminal_columns(int descriptor);

struct ProgressOptions {
  std::function<int()> columns;  // of the terminal, asked before each drawing; empty: there is none
  Duration between_drawings = std::chrono::milliseconds(100);
  Duration between_lines = std::chrono::seconds(10);
  Duration recent = std::chrono::seconds(5);  // what rates and losses are taken over
};

class Progress {
 public:
  // `out` outlives it and is written to by nobody else meanwhile; what others have to say goes through `above`.
  explicit Progress(std::ostream& out, ProgressOptions options = {});
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // A bar that was not finished stays, on a line of its own.
  ~Progress();

  // Forgets all before. With 0 batches their number is unknown until the first epoch is over; then every epoch is taken
  // to be as long as the one before it.
  void begin(std::uint64_t epochs, std::uint64_t batches_per_epoch, TimePoint now);
  // Epochs and batches count from 1. A batch in parts may be told part by part.
  void on_loss(std::uint64_t epoch, std::uint64_t batch, std::uint64_t samples, double loss, TimePoint now);
  void on_accuracy(double percent, TimePoint now);
  // Shows the end, and leaves the line.
  void finish(TimePoint now);

  // A message of one line, above the bar where there is one. Control characters in it are written as '?'.
  void above(std::string_view line);

  // As of the last call.
  ProgressFacts facts() const;

 private:
  struct Position {
    std::uint64_t epoch = 1;
    std::uint64_t batch = 0;
    TimePoint at;
  };

  bool on_terminal() const { return static_cast<bool>(options_.columns); }
  ProgressFacts facts_now() const RAVNEST_REQUIRES(mutex_);
  std::optional<double> seconds_left() const RAVNEST_REQUIRES(mutex_);
  bool epoch_is_over() const RAVNEST_REQUIRES(mutex_) { return batches_ > 0 && last_.batch == batches_; }
  void show(TimePoint now) RAVNEST_REQUIRES(mutex_);
  void draw() RAVNEST_REQUIRES(mutex_);
  void print_line() RAVNEST_REQUIRES(mutex_);
  void write(std::string_view bytes) RAVNEST_REQUIRES(mutex_);

  const ProgressOptions options_;

  mutable Mutex mutex_;
  std::ostream& out_ RAVNEST_GUARDED_BY(mutex_);
  std::uint64_t epochs_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::uint64_t batches_ RAVNEST_GUARDED_BY(mutex_) = 0;  // of an epoch; 0: unknown
  bool learns_batches_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool running_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool line_due_ RAVNEST_GUARDED_BY(mutex_) = false;  // no plain line says yet how the present epoch ended
  std::optional<Position> first_ RAVNEST_GUARDED_BY(mutex_);
  Position last_ RAVNEST_GUARDED_BY(mutex_);
  TimePoint now_ RAVNEST_GUARDED_BY(mutex_);
  std::optional<double> accuracy_ RAVNEST_GUARDED_BY(mutex_);
  Recent recent_ RAVNEST_GUARDED_BY(mutex_);
  std::optional<TimePoint> shown_ RAVNEST_GUARDED_BY(mutex_);  // when last
  std::string bar_ RAVNEST_GUARDED_BY(mutex_);                 // on the terminal now
};

}  // namespace ravnest::report
