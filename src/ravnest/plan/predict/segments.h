// What each run of operators between two possible cuts would cost as a stage, in constant time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ravnest/plan/predict/costs.h"

namespace ravnest::plan {

// One stage's load for one pass.
struct StageLoad {
  double work = 0;
  std::int64_t stored_bytes = 0;      // weights and buffers that it uses
  std::int64_t trainable_bytes = 0;   // of those, what is trained here: gradients, optimizer and versions hang on it
  std::int64_t owned_bytes = 0;       // first used here, as it goes over the rings: see averaged_bytes
  std::int64_t owned_parameters = 0;  // elements, frozen ones too
  std::int64_t saved_bytes = 0;       // per pass in flight
  std::int64_t working_bytes = 0;     // once
  std::int64_t received_bytes = 0;    // forward, from earlier stages
  std::int64_t returned_bytes = 0;    // the gradients of those, sent back
  std::int64_t sent_bytes = 0;        // forward, to later stages
  std::int64_t gradient_bytes = 0;    // the gradients of those, which come back
  std::int64_t kept_bytes = 0;        // results for later stages, each once, and their gradients
};

// The loads of the stages that these cuts make (positions of operators, ascending), exactly: a result that several
// later stages read is sent to each of them.
std::vector<StageLoad> stage_loads(const ModelCosts& costs, const std::vector<int>& cuts);

// Positions at which a stage may begin, the model's begin and end included. At most `limit` of them: where there are
// more, those with the least to send, spread over the model's work.
std::vector<int> cut_positions(const ModelCosts& costs, int limit);

// A result that several later stages read counts once in a segment's `sent_bytes`: the segment does not know how many
// will. Everything else is exact.
class Segments {
 public:
  Segments(const ModelCosts& costs, std::vector<int> positions);

  int count() const { return static_cast<int>(positions_.size()) - 1; }  // of the shortest segments
  const std::vector<int>& positions() const { return positions_; }
  // From the `begin`th to the `end`th position, begin < end <= count().
  StageLoad load(int begin, int end) const;
  double work(int begin, int end) const { return work_[end] - work_[begin]; }
  // Whether it has a parameter of its own, which every stage must: the rings know stages by their parameters.
  bool owns_parameters(int begin, int end) const { return owned_[end] > owned_[begin]; }
  // The most stages that the model can be cut into.
  int most_stages() const { return most_stages_; }

 private:
  struct Cell {
    std::int64_t stored_bytes = 0;
    std::int64_t trainable_bytes = 0;
    std::int64_t received_bytes = 0;
    std::int64_t returned_bytes = 0;
    std::int64_t sent_bytes = 0;
    std::int64_t gradient_bytes = 0;
    std::int64_t working_bytes = 0;
  };
  // Rows of a triangle: those of segment 0, 1, ... one after the other.
  std::size_t index(int begin, int end) const {
    const std::size_t before = static_cast<std::size_t>(begin) * (2 * positions_.size() - begin - 1) / 2;
    return before + end - begin - 1;
  }
  Cell& cell(int begin, int end) { return cells_[index(begin, end)]; }
  const Cell& cell(int begin, int end) const { return cells_[index(begin, end)]; }
  void fill_row(const ModelCosts& costs, int begin);

  std::vector<int> positions_;
  std::vector<Cell> cells_;
  // Per position, sums over all operators before it.
  std::vector<double> work_;
  std::vector<std::int64_t> saved_;
  std::vector<std::int64_t> again_;  // per position, of its own
  std::vector<std::int64_t> owned_;  // elements of parameters
  std::vector<std::int64_t> owned_bytes_;
  int most_stages_ = 1;
};

}  // namespace ravnest::plan
