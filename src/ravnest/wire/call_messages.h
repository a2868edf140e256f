// What nodes tell each other about a call, beside its passes (stage/call.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ravnest::wire {

struct Setting {
  std::string name;
  std::string value;

  bool operator==(const Setting&) const = default;
};

// A checkpoint that a stage could go on from: it has read all that it needs of it.
struct ReadableCheckpoint {
  std::string run;  // an id of the run's
  std::uint64_t updates = 0;
  std::optional<double> accuracy;  // in percent

  bool operator==(const ReadableCheckpoint&) const = default;
};

// From every stage to the root: what it is ready for.
struct Ready {
  std::string call;               // as users name it: "train", "evaluate", "pred"
  std::vector<Setting> settings;  // what the whole cluster has to be started with alike, each name once
  std::vector<ReadableCheckpoint> checkpoints = {};  // where the run is to go on from one

  bool operator==(const Ready&) const = default;
};

// Where a run of checkpoints begins.
struct CheckpointRun {
  std::string run;            // an id; a run that goes on keeps it
  std::uint64_t updates = 0;  // of the checkpoint that it goes on from; 0: from none
  bool joins = false;         // other clusters train already, and have made later ones, perhaps

  bool operator==(const CheckpointRun&) const = default;
};

// What every stage has to do after the passes.
struct Task {
  bool save = false;
  std::string run;                                // an id of the run's, for what is saved
  std::uint64_t epochs = 0;                       // that are over
  std::optional<CheckpointRun> checkpoints = {};  // to be prepared for, before anything is trained

  bool operator==(const Task&) const = default;
};

// From the root: all passes of its call are done.
struct Over {
  std::uint64_t passes = 0;  // all there were so far, of all kinds and calls
  Task task;

  bool operator==(const Over&) const = default;
};

// What a node did in a call, as it measured it. Times and means are finite and at least 0.
struct NodeWork {
  double running_s = 0;  // since its first pass began; of that it computed:
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  std::uint64_t passes = 0;  // that train
  std::uint64_t updates = 0;
  double staleness_mean = 0;  // updates between a pass's forward and its backward
  std::uint64_t staleness_most = 0;
  std::uint64_t versions_most = 0;  // of the weights, at one time
  std::uint64_t bytes_sent = 0;     // on its connections
  std::uint64_t bytes_received = 0;
  std::uint64_t tensor_bytes_sent = 0;  // before compression
  double round_trip_s = 0;              // to the next stage; 0: not measured, or there is none

  bool operator==(const NodeWork&) const = default;
};

// From every stage to the root: it has done its task.
struct Account {
  NodeWork work;
  std::optional<std::string> unsaved;  // why its stage could not be saved; none where it was, or was not to be

  bool operator==(const Account&) const = default;
};

// From the root: everyone has done the task.
struct Closed {
  std::optional<double> accuracy;      // in percent, of the last sweep
  bool goes_on = false;                // what the user has called goes on in the next call
  std::optional<std::string> unsaved;  // where some stages could not be saved: whose, why, and whose could
  // Where the run ends before its time: why, and what was kept of it.
  std::optional<std::string> ended_early = {};

  bool operator==(const Closed&) const = default;
};

}  // namespace ravnest::wire
