// How a run that fails ends on all its nodes with one reason: a state machine.
//
// Whoever learns that the run has failed, by itself or from another, tells all others, once. Of all that was told the
// same one wins everywhere: what a stage says of itself before the loss of one, then the lower stage. A node is through
// when it has heard everyone who is not lost; then all that can be heard has been. Not thread-safe; one owner.
// Reasons are made fit for a terminal (printable.h), one's own before it is told as well as those of others: a peer may
// say anything.
//
// Since everyone tells once, one reason for all can not be promised where a node is lost after it told, and had told
// some of the others only what no one else knew; nor where two that live do not reach each other, or a node ends
// before it is through. The reason is true in any case.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "ravnest/wire/message.h"

namespace ravnest::stage {

class Ending {
 public:
  Ending(int self, int count);

  // This node found out by itself. Returns what to tell all others; nothing where the ending has begun: then others
  // will not hear of this reason, and it does not count here either.
  std::optional<wire::Failed> fail(wire::Failed reason);
  // Another stage told. The same return.
  std::optional<wire::Failed> on_failed(int from, wire::Failed told);
  // A stage is gone: it will tell nothing. By itself that is a failure as well, of which the caller decides what to
  // say.
  void on_gone(int stage);

  bool begun() const { return reason_.has_value(); }
  bool settled() const;
  // The one that holds, of those told so far. Only after the ending has begun.
  const wire::Failed& reason() const;

 private:
  void consider(const wire::Failed& reason);

  int self_;
  int count_;
  std::optional<wire::Failed> reason_;
  std::set<int> silent_;  // have told, or are gone
};

}  // namespace ravnest::stage
