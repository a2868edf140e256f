// What a run of several clusters goes on from, as a state machine: one at the root of each cluster.
//
// It holds no file, thread, clock or socket. Tell it what came and how the others are, and send what it says.
// - When a root knows what its cluster could go on from, it tells all others (wire::RunOffer).
// - The lowest cluster of those that are there decides, once it has heard of all of them: the newest checkpoint that
// all
//   can read, or the best. Those that were never seen are waited for as long as one is willing to.
// - It tells all, and each passes it on: so that all that live know of one decision, whoever ends in the middle of it.
// - A cluster that comes later asks in the same way, and is told what was chosen without it: it takes up its own part
//   from the newest checkpoint of that run that it has, and the others' weights with its first round.
//
// Not thread-safe; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/wire/checkpoint_messages.h"

namespace ravnest::train {

// Who could go on from what.
struct ReadableBy {
  std::string who;  // "node_1", "cluster 1 (node_2)"
  std::vector<wire::ReadableCheckpoint> checkpoints;
};
// What all can read. kNotFound, with who has what, where some can read something and all can nothing.
Result<std::vector<wire::ReadableCheckpoint>> readable_by_all(const std::vector<ReadableBy>& all);
// The newest of them, or the best where `wanted` is "best"; none where there are none.
std::optional<wire::ReadableCheckpoint> preferred(const std::vector<wire::ReadableCheckpoint>& checkpoints,
                                                  const std::string& wanted);

enum class Presence : std::uint8_t { kNeverSeen, kThere, kGone };

class RunChoice {
 public:
  using Send = std::pair<int, wire::Checkpointing>;  // to the root of that cluster

  // `roots` are the names of all clusters' roots; `new_run` is the id of the run if it begins anew by this one's
  // decision.
  RunChoice(int self, std::vector<std::string> roots, std::string new_run);

  // The own cluster's offer, or why it can make none, which ends the run for all that wait for it.
  void offer(wire::RunOffer offer);
  void fail(std::string failure);
  // kInvalid where it can't be said by another root.
  Status on_message(int from, const wire::Checkpointing& message);
  // How the others are, by cluster; `patient`: those that were never seen are waited for.
  void look(const std::vector<Presence>& presence, bool patient);

  // The cluster is gone; should it come back it comes late, whatever was chosen before.
  void gone(int cluster);

  // What is to be sent since this was last asked.
  std::vector<Send> take_sends() { return std::exchange(sends_, {}); }
  // What the own cluster goes on from, or why not, once that is known.
  std::optional<Result<wire::CheckpointRun>> chosen() const;
  // The clusters that it was chosen without, of those that there are.
  std::vector<int> left_out() const;
  // Whether the others train already, and chose without this cluster.
  bool came_late() const;
  // The clusters that are waited for.
  std::vector<int> waiting_for() const;

 private:
  int clusters() const { return static_cast<int>(roots_.size()); }
  ReadableBy named(int cluster) const;
  int decider() const;
  void decide();
  wire::RunChosen decided() const;
  void take(const wire::RunChosen& chosen);
  void answer(int cluster);

  const int self_;
  const std::vector<std::string> roots_;
  const std::string new_run_;
  std::map<int, wire::RunOffer> offers_;  // by cluster
  std::vector<Presence> presence_;
  bool patient_ = true;
  std::optional<wire::RunChosen> chosen_;
  std::vector<Send> sends_;
};

}  // namespace ravnest::train
