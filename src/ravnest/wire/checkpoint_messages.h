// What the nodes of a run tell each other about checkpoints (train/node/node_checkpoints.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/wire/call_messages.h"

namespace ravnest::wire {

// From a stage to the root: its part of the checkpoint is on its disk, or why it is not.
struct PartWritten {
  std::uint64_t checkpoint = 0;
  std::string part;                    // what the manifest is to say of it (checkpoint/manifest.h)
  std::optional<std::string> failure;  // a sentence, without the stage's name

  bool operator==(const PartWritten&) const = default;
};

// From the root: all parts are written, and this is the manifest, for whoever has a folder of their own. Without one:
// some part could not be written, and nobody waits for this checkpoint any more.
struct CheckpointOver {
  std::uint64_t checkpoint = 0;
  std::optional<std::string> manifest;

  bool operator==(const CheckpointOver&) const = default;
};

// From a node to its root: it was told to end, and the run is to end after one more checkpoint. From that root to those
// of the other clusters.
struct EndWanted {
  std::string why;  // reads on after the node's name: "got SIGTERM"; between roots it begins with that name

  bool operator==(const EndWanted&) const = default;
};

// Where checkpoints go to object storage. From a stage to the root: its part is there, or why it is not. From there to
// the root that writes the manifest of several clusters: all parts of its cluster are. The answer to that is the same:
// the manifest is there.
struct PartUploaded {
  std::uint64_t checkpoint = 0;
  std::optional<std::string> failure;  // a sentence; without the stage's name from a stage, with it from a root

  bool operator==(const PartUploaded&) const = default;
};

// Between the roots of clusters, as what follows: from each to the one that writes the manifest of all. All parts of
// its cluster are written, or why they are not. The answer is CheckpointOver.
struct ClusterParts {
  std::uint64_t checkpoint = 0;
  std::string manifest;                // of a checkpoint of this cluster alone (checkpoint/manifest.h)
  std::optional<std::string> failure;  // a sentence that begins with a node's name

  bool operator==(const ClusterParts&) const = default;
};

// Before anything is trained (train/node/run_choice.h), to all others: what the cluster could go on from.
struct RunOffer {
  std::string wanted;                           // what it was told to go on from, as users write it
  std::vector<ReadableCheckpoint> checkpoints;  // that all its nodes have read

  bool operator==(const RunOffer&) const = default;
};

// The answer to it from whoever decides, and from whoever knows of a decision.
struct RunChosen {
  CheckpointRun run;
  std::vector<std::uint32_t> clusters = {};  // that it was chosen with; any other comes late
  std::optional<std::string> failure;        // why the clusters can not go on together, a sentence

  bool operator==(const RunChosen&) const = default;
};

// The order is the numbering on the wire, as in Message.
using Checkpointing =
    std::variant<PartWritten, CheckpointOver, EndWanted, PartUploaded, ClusterParts, RunOffer, RunChosen>;

}  // namespace ravnest::wire
