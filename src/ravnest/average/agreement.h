// How the clusters of a run agree on their averaging rounds, as a state machine: one at the root of each cluster.
//
// It holds no tensor, thread, clock or socket. Tell it what came, carry out the actions that it returns, in order.
// Rounds are numbered from 1, one is held at a time, and each may take several attempts.
//
// How it works:
// - Every root tells every other how it stands, whole, whenever that changes (wire::ClusterState). So whoever has
//   to decide knows all that there is to know, and there is nothing incremental to lose.
// - The *companions* of a root are the participants of the last attempt that it was told of, less those that it has
//   lost. Who was lost once is not one again before the next attempt. A root follows one of them as its *leader*: the
//   one that began the attempt, and where that is lost the lowest. Without companions (it has just started, or is out)
//   it follows the leader of a group that it sees; where there is none, the lowest cluster of all that are up.
// - The leader decides, and only while all its companions follow it: then they have given up every leader before it,
//   and none of them holds something that it does not know of. When all are ready it begins an attempt; when all
//   participants have the result it commits. Where a participant is lost it begins another with the others.
// - A commit is known by the state of anyone who has it: who has the attempt's result and sees that another went on
//   from there goes on as well. So a round holds on all participants that live, or on none, whoever crashes when.
// - The attempts of cluster c have the numbers that leave the remainder c when divided by the number of clusters, so
//   two leaders never use the same one. One that has come back may, where it reaches nobody who remembers.
// - Where two that live do not reach each other, a cluster may see others go on without it. It then gives those up and
//   goes on with whom it has left, if only itself. Where two groups meet, the members of the smaller one are out: they
//   come in as newcomers, whose weights do not count until a round has held.
// - A checkpoint is of all participants of a round. Each says with its state whether it can make one when the round
//   holds, and whether one is due there; where one is due and all can, the attempt has its number. Where not all can,
//   because they are in the middle of training then, the round says that the next one is for it.
//
// Not thread-safe; one owner. What comes is checked: a message that does not fit changes nothing and is counted.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/wire/message.h"

namespace ravnest::average {

using wire::Attempt;
using wire::ClusterState;

// What a cluster says of a checkpoint after the round that it enters.
struct Capture {
  std::uint64_t number = 0;  // the least that it could have; 0: it can make none
  bool due = false;

  bool operator==(const Capture&) const = default;
};

class Agreement {
 public:
  struct Send {
    int to = 0;
    wire::Averaging message;
  };
  // Add up with these participants what was entered, and say `complete` when all of it is there; any earlier attempt is
  // over.
  struct Begin {
    Attempt attempt;
  };
  // The result of the attempt begun last, which is this one, is applied.
  struct Holds {
    std::uint64_t round = 0;
    std::uint64_t attempt = 0;
    bool last = false;
  };
  // What was entered does not count, and an attempt that was begun is over. Enter again: as a newcomer, unless nobody
  // has held a round yet.
  struct Out {};
  using Action = std::variant<Send, Begin, Holds, Out>;
  using Actions = std::vector<Action>;

  Agreement(int self, int clusters);

  // -- what the owner says

  // Takes part in the next round, with this weight; stays so until one has held, or it is out.
  Actions enter(double weight, Capture capture = {});
  // Trains no more: enters once more, with this weight, and after that takes part in every round, without weight, until
  // `resume`. Where it is entered already it enters again when that round has held. `capture` is due until there is a
  // checkpoint.
  Actions finish(double weight, Capture capture = {});
  Actions resume();
  // All stages of the cluster have the result of the attempt.
  Actions complete(std::uint64_t attempt);
  // A stage can't reach the one of that cluster, which it needs for the present attempt.
  Actions missing(int cluster);
  // Before the first attempt all clusters are waited for, until this is said. To be said whenever `changes` has been
  // the same for as long as one is willing to wait (much longer than a loss may take to be noticed everywhere): then
  // those are given up, too, that live, but follow someone who can't be reached from here.
  Actions begin_without_the_unseen();

  // -- what comes from the network

  // Up: messages pass, both ways. Down: lost or left; nothing of what it said counts from here on, and no message of
  // before comes after its next `up`.
  Actions on_peer(int cluster, bool up);
  Actions on_message(int from, const wire::Averaging& message);

  // -- how it is

  std::uint64_t round() const { return round_; }  // the next to be held
  int leader() const;
  bool newcomer() const { return newcomer_; }
  bool entered() const { return entered_; }
  bool finished() const { return finished_; }
  // Somebody needs the round now: enter at the next update rather than when it is due.
  bool called() const { return called_; }
  // The clusters that follow the same leader, as seen here, with this one.
  std::vector<int> members() const;
  // The others without whom it can't go on just now: who do not have the open attempt's result, or are not ready for
  // the next round.
  std::vector<int> waiting_for() const;
  // Grows when a peer comes or goes, and when one follows another leader or has other companions.
  std::uint64_t changes() const { return changes_; }
  std::uint64_t ignored() const { return ignored_; }  // messages

 private:
  struct Peer {
    bool seen = false;
    bool up = false;
    bool told = false;                  // our state, as it is
    bool sent_out = false;              // and not heard of since
    bool turned_us_away = false;        // as a leader, since others do not reach us
    std::uint64_t called = 0;           // for this round
    std::optional<ClusterState> state;  // the last, of this connection
  };
  // Of two groups the lower one yields.
  using Precedence = std::tuple<bool, std::size_t, std::uint64_t, std::uint64_t>;

  Peer& peer(int cluster) { return peers_[static_cast<std::size_t>(cluster)]; }
  const Peer& peer(int cluster) const { return peers_[static_cast<std::size_t>(cluster)]; }
  bool is_other(int cluster) const;
  const ClusterState* state_of(int cluster) const;  // of a peer that is up
  ClusterState state() const;
  static bool has_companion(const ClusterState& state, int cluster);
  static bool has_participant(const Attempt& attempt, int cluster);
  bool is_companion(const wire::Participant& participant) const {
    return companions_.contains(static_cast<int>(participant.cluster));
  }

  Actions settle();
  bool learn();
  void tell();
  void begin(const Attempt& attempt);
  void hold();
  void go_out(std::uint64_t their_round);
  void send(int to, wire::Averaging message) { actions_.emplace_back(Send{to, std::move(message)}); }
  // Whether the message fits, and was taken.
  bool hear(int from, const ClusterState& state);
  bool hear(int from, const Attempt& attempt);
  bool hear(int from, const wire::CommitAttempt& commit);
  bool hear(int from, const wire::CallRound& call);
  bool hear(int from, const wire::SendOut& out);
  // Of stages, to their own root.
  bool hear(int, const wire::AttemptComplete&) { return false; }
  bool hear(int, const wire::ClusterMissing&) { return false; }

  // Which group it belongs to, and who leads it (agreement_group.cpp).
  bool give_up();
  bool adopt_round();
  bool may_be_followed(int cluster) const { return peer(cluster).up && !peer(cluster).turned_us_away; }
  bool leads(int cluster) const;
  static Precedence precedence(const ClusterState& state);
  bool has_left(int companion) const;
  bool is_foreign(int cluster) const;
  std::vector<const ClusterState*> better_groups() const;

  // Of the leader (agreement_leader.cpp).
  bool decide();
  bool may_lead() const;
  bool follows(int companion) const;
  bool go_on_without_the_others();
  bool commit_if_complete();
  bool part_from_missing();
  int who_goes(int by, int named) const;
  bool names_missing(int cluster, int other) const;
  bool bring_to_one_round(const std::vector<int>& followers);
  bool begin_if_ready(const std::vector<int>& followers);
  void call(const std::vector<int>& followers);
  void propose(const std::vector<int>& participants);
  std::uint64_t next_attempt() const;

  int self_;
  int clusters_;
  int joining_;  // without companions: the leader that it follows
  std::vector<Peer> peers_;
  std::uint64_t round_ = 1;
  bool entered_ = false;
  bool finished_ = false;
  bool newcomer_ = false;
  bool called_ = false;
  bool last_held_ = false;  // of all rounds held here the last was one of all finished
  // What it enters a round with.
  struct Entry {
    double weight = 0;
    Capture capture;
  };
  Entry entry_;
  std::optional<Entry> entry_after_;   // it has finished while it was entered: of the round after that
  std::uint64_t last_checkpoint_ = 0;  // the number of the last one
  bool for_checkpoint_ = false;        // the last round that held said so of this one

  std::uint64_t attempt_ = 0;    // the last one told of
  std::uint64_t greatest_ = 0;   // attempt that was ever seen
  std::optional<Attempt> open_;  // the same, until it holds or is given up
  bool own_ = false;             // the open one was begun by this leader
  bool complete_ = false;
  std::set<int> missing_;
  std::set<int> companions_;  // with oneself; none: out, or not in yet
  std::set<int> expected_;    // participants of the last attempt that were not up yet when it began
  std::set<int> barred_;      // until a round has held or none is needed: others can't reach them
  bool unseen_given_up_ = false;
  bool patience_over_ = false;  // until something changes

  ClusterState told_;
  Actions actions_;
  std::uint64_t changes_ = 0;
  std::uint64_t ignored_ = 0;
};

}  // namespace ravnest::average
