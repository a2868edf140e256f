// The training loop of a node without Python, the same on every node: the root feeds, the others serve.
//
//   auto node = Node::open({.name = "node_1"});
//   auto trainer = Trainer::prepare(**node, config, {});
//   auto outcome = trainer->train(poll);
//   (*node)->close();
//
// Its loop is the one that ravnest.Trainer runs (loop.h), so that nodes with and without Python take part in one run;
// as long as nothing is shuffled, since the orders of a DataLoader are its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/report/progress.h"
#include "ravnest/train/config/config.h"
#include "ravnest/train/loop/batched_data.h"
#include "ravnest/train/loop/loop.h"
#include "ravnest/train/node/node.h"

namespace ravnest::train {

struct TrainerOptions {
  report::Progress* progress = nullptr;  // told of the run on the root; outlives the node
};

struct TrainOutcome {
  double seconds = 0;  // the following are the root's; 0 and empty elsewhere
  std::uint64_t samples = 0;
  std::string summary = {};  // for people, several lines (report/summary.h)
  // Where the run has ended before its time, with a checkpoint: why.
  std::optional<std::string> ended_early = {};
};

// For one thread. The node outlives it, and has not been configured before.
class Trainer {
 public:
  // Makes all that the config names, and configures the node with it. Data sets are read on the root and on the leaf
  // only: others need no data files. kInvalid for names and options that do not exist, kUnsupported for models with
  // several inputs, otherwise as load_dataset. On failure the run is ended on all nodes, which would wait for this one
  // in vain.
  static Result<Trainer> prepare(Node& node, const TrainConfig& config, TrainerOptions options);

  // On the root: trains for the config's epochs, validates, has all nodes save where asked for. On others: serves until
  // the root's call is over. A failure, `poll`'s among them, ends the run on all nodes; for kCancelled the others read
  // that this node "was interrupted".
  Result<TrainOutcome> train(const Poll& poll);

  // The accuracy over the validation data in percent, on every node; none where nothing could be counted.
  Result<std::optional<double>> evaluate(const Poll& poll);

 private:
  Trainer(Node& node, const TrainConfig& config) : node_(&node), config_(config) {}

  Status load_data();
  Result<TrainingOptions> training_options(const TrainerOptions& options) const;

  Result<TrainOutcome> lead(const Poll& poll);
  Result<wire::Closed> serve(const std::string& call, const Poll& poll);

  Node* node_;
  TrainConfig config_;
  std::optional<BatchedData> training_;  // on root and leaf
  std::optional<BatchedData> validation_;
  std::string run_;  // an id, for what is saved
  Position position_;
  BatchCounts epochs_{"the data set of [data]", "epoch"};
  BatchCounts validations_{"the data set of [validation]", "validation"};
};

}  // namespace ravnest::train
