// What the root makes of the leaf's reports: a loss per update, an accuracy per sweep, outputs of predictions.
//
// One thread says which passes there will be, in their order; another brings the reports, in the same order. Safe for
// both at once.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/report/progress.h"
#include "ravnest/report/record_file.h"
#include "ravnest/report/summary.h"
#include "ravnest/stage/stage.h"
#include "ravnest/wire/message.h"

namespace ravnest::train {

struct RunRecordOptions {
  std::filesystem::path loss_file = "losses.txt";  // empty: none is written, as the other
  std::filesystem::path accuracy_file = "val_accuracies.txt";
  report::Progress* progress = nullptr;                    // told of losses and accuracies; outlives the record
  std::string leaf = {};                                   // who computes the loss, for messages
  std::function<void(const std::string& line)> warn = {};  // told when the loss begins not to be finite
};

// What a sweep of validation passes is for.
enum class Sweep : std::uint8_t {
  kValidation,  // its accuracy is a line of the file
  kEvaluation,  // it is only asked for
};

// How a run's files and sums stand at a checkpoint.
struct RecordMark {
  std::uint64_t updates = 0;                      // lines of the loss file
  std::uint64_t accuracies = 0;                   // lines of the other
  double window_loss = 0;                         // of batches since the last update
  std::optional<double> accuracy = std::nullopt;  // of the validation of these very weights
  std::uint64_t trained = 0;                      // batches, where that is counted: `remember`
};

class RunRecord {
 public:
  explicit RunRecord(RunRecordOptions options) : options_(std::move(options)) {}

  // -- the thread that feeds

  // A training of so many epochs, from `first` on, begins and ends: for the progress. 0 batches: unknown.
  void begin_training(std::uint64_t first, std::uint64_t epochs, std::uint64_t batches_per_epoch);
  void end_training();
  // `samples` of the pass, for those who want to know how fast it goes.
  void expect(const stage::Offer& offer, std::uint64_t samples);
  // The pass that was expected last was not offered: there will be no report on it.
  void retract();
  // All passes of a sweep are expected. Fails as on_report, where all of them are reported already.
  Status expect_end(Sweep sweep);
  // A snapshot pass for that checkpoint is expected, which nobody reports on. Fails as expect_end.
  Status expect_checkpoint(std::uint64_t checkpoint);
  // For checkpoints that are made of rounds with other clusters, of which the number is not known before they hold. How
  // all stands behind so many batches that train, reports to come among it, is remembered until this is said again; the
  // accuracy is then that of the last validation, unless an earlier checkpoint had it.
  void remember(std::uint64_t trained);
  // What is remembered is of that checkpoint.
  void keep_as(std::uint64_t checkpoint);
  // The run goes on from a checkpoint: the files are cut to it with the next line, lines that are missing are said. To
  // be called before anything else.
  void go_on(const RecordMark& mark);
  // From now on a loss that is not finite is a failure of on_report.
  void stop_at_nan(bool stop);

  // -- the thread that gets reports

  // kInternal where the pass was not expected, kInvalid as stop_at_nan says; otherwise what goes wrong with a file.
  // `by` is who computed the loss, where that is not always the leaf.
  Status on_report(wire::Report report, std::string_view by = {});

  // -- anyone

  // Of the last sweep, in percent; none before the first one, or where nothing could be counted in it.
  std::optional<double> accuracy() const;
  std::uint64_t samples_trained() const;
  // Since the training began. Steps are counted as the lines of the loss file, from 1.
  report::BadLosses bad_losses() const;
  // How all stood at a checkpoint, once all reports before it have come; of the last one alone.
  std::optional<RecordMark> mark(std::uint64_t checkpoint) const;
  // Those of predictions since they were last taken, by pass.
  std::vector<std::vector<wire::Tensor>> take_outputs();

 private:
  struct Expected {
    stage::Offer offer;
    std::uint64_t samples = 0;
  };

  RecordMark mark_now() const RAVNEST_REQUIRES(mutex_);
  void end_batch() RAVNEST_REQUIRES(mutex_);
  void remember_now() RAVNEST_REQUIRES(mutex_);
  Status append(std::optional<report::RecordFile>& file, const std::filesystem::path& path, double value, int decimals,
                std::uint64_t lines_before) RAVNEST_REQUIRES(mutex_);
  Status take_in(const Expected& expected, wire::Report& report, std::string_view by) RAVNEST_REQUIRES(mutex_);
  Status check_loss(const Expected& expected, double loss, std::string_view by) RAVNEST_REQUIRES(mutex_);
  Status end_sweep(Sweep sweep) RAVNEST_REQUIRES(mutex_);
  Status end_sweeps() RAVNEST_REQUIRES(mutex_);

  const RunRecordOptions options_;
  mutable Mutex mutex_;
  std::deque<std::variant<Expected, Sweep, std::uint64_t>> expected_ RAVNEST_GUARDED_BY(mutex_);
  std::optional<report::RecordFile> losses_ RAVNEST_GUARDED_BY(mutex_);
  std::optional<report::RecordFile> accuracies_ RAVNEST_GUARDED_BY(mutex_);
  double window_loss_ RAVNEST_GUARDED_BY(mutex_) = 0;  // since the last update
  std::uint64_t first_epoch_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::uint64_t updates_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::uint64_t accuracy_lines_ RAVNEST_GUARDED_BY(mutex_) = 0;
  bool goes_on_ RAVNEST_GUARDED_BY(mutex_) = false;         // from a checkpoint
  std::uint64_t validated_ RAVNEST_GUARDED_BY(mutex_) = 0;  // updates when the last sweep ended
  std::optional<std::pair<std::uint64_t, RecordMark>> mark_ RAVNEST_GUARDED_BY(mutex_);  // by checkpoint
  RecordMark behind_ RAVNEST_GUARDED_BY(mutex_);  // the last batch that was reported
  std::uint64_t remember_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::optional<RecordMark> remembered_ RAVNEST_GUARDED_BY(mutex_);  // once all reports before it have come
  std::optional<std::uint64_t> keep_as_ RAVNEST_GUARDED_BY(mutex_);  // when they have
  bool accuracy_is_new_ RAVNEST_GUARDED_BY(mutex_) = false;          // no checkpoint had it
  bool stop_at_nan_ RAVNEST_GUARDED_BY(mutex_) = false;
  report::BadLosses bad_losses_ RAVNEST_GUARDED_BY(mutex_);
  bool finite_ RAVNEST_GUARDED_BY(mutex_) = true;                            // the last loss
  std::optional<std::uint64_t> warned_in_epoch_ RAVNEST_GUARDED_BY(mutex_);  // the last that there was a line in
  std::uint64_t samples_trained_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::uint64_t correct_ RAVNEST_GUARDED_BY(mutex_) = 0;  // of the sweep
  std::uint64_t counted_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::optional<double> accuracy_ RAVNEST_GUARDED_BY(mutex_);
  std::vector<std::vector<wire::Tensor>> outputs_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace ravnest::train
