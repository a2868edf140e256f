// What the nodes of a cluster tell each other about checkpoints (train/node/node_checkpoints.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

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

// From a node to its root: it was told to end, and the run is to end after one more checkpoint.
struct EndWanted {
  std::string why;  // reads on after the node's name: "got SIGTERM"

  bool operator==(const EndWanted&) const = default;
};

// From a stage to the root, where checkpoints go to object storage: its part is there, or why it is not.
struct PartUploaded {
  std::uint64_t checkpoint = 0;
  std::optional<std::string> failure;  // a sentence, without the stage's name

  bool operator==(const PartUploaded&) const = default;
};

// The order is the numbering on the wire, as in Message.
using Checkpointing = std::variant<PartWritten, CheckpointOver, EndWanted, PartUploaded>;

}  // namespace ravnest::wire
