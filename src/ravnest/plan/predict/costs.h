// What planning knows of a model: plain numbers per operator, stored tensor and intermediate result.
//
// No graph and no torch: a plan for a thousand machines is made, tested and fuzzed on numbers alone. `costs_of` in
// clusterize.h fills it from a captured model; tests and the simulator make their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ravnest::plan {

struct OperatorCost {
  std::string name;
  std::string module;              // "encoder.layers.0.fc"
  double work = 0;                 // FLOPs of forward and backward, or what takes as long
  std::int64_t saved_bytes = 0;    // that a pass in flight holds because of it
  std::int64_t again_bytes = 0;    // held for operators before it and, if a stage begins here, by that stage too
  std::int64_t working_bytes = 0;  // needed for a moment, while it runs
  bool cut_allowed = false;        // whether a stage may begin with it
  std::string refusal;             // why it may not, for people
};

// A parameter, buffer or constant. Tied weights are one, under their first name.
struct StoredCost {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t elements = 0;
  bool parameter = false;
  bool trainable = false;
  std::vector<int> used_at;  // operators, ascending, at least one; the first one's stage owns it
  bool statistic = false;    // a buffer of numbers that training changes, such as batch norm's means and variances
};

// A tensor that would have to be sent if a cut fell between its making and its reading.
struct SentCost {
  int made_at = -1;          // -1: an input of the model
  std::vector<int> read_at;  // ascending; the number of operators where the model returns it
  std::int64_t bytes = 0;
  std::int64_t gradient_bytes = 0;  // that come back for it
};

struct ModelCosts {
  std::vector<OperatorCost> operators;
  std::vector<StoredCost> stored;  // parameters in the order of their first use
  std::vector<SentCost> sent;
  std::int64_t batch = 1;         // samples in one pass
  std::int64_t memory_bytes = 0;  // of training the whole model on one machine, the optimizer's state included
};

// The label that other tools know a parameter by: "L__self___", the module's path with underscores, the own name.
std::string parameter_label(const std::string& name);

// What clusters average of it: an element as a float32 where it is trained or a statistic, nothing of all others.
std::int64_t averaged_bytes(const StoredCost& stored);

// Parameters of the model, or trainable elements only, that the operators [begin, end) are the first to use.
std::int64_t owned_parameters(const ModelCosts& costs, int begin, int end);
std::int64_t owned_trainable(const ModelCosts& costs, int begin, int end);

}  // namespace ravnest::plan
