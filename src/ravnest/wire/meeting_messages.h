// What the ranks of a data-parallel run tell each other while they meet (strategy/launch/meeting.h).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/wire/call_messages.h"

namespace ravnest::wire {

// From every rank to rank 0: here it is.
struct Join {
  std::uint32_t world = 0;        // ranks in all, as it was told
  std::string host;               // where others reach it; empty: as rank 0 sees it
  std::uint16_t port = 0;         // where it listens
  std::vector<Setting> settings;  // what has to be the same on all ranks, each name once

  bool operator==(const Join&) const = default;
};

struct RankAddress {
  std::string host;  // empty: on rank 0's machine, where the receiver reaches rank 0
  std::uint16_t port = 0;

  bool operator==(const RankAddress&) const = default;
};

// From rank 0 to every rank, when all are there: where they are.
struct Table {
  std::vector<RankAddress> addresses;  // by rank

  bool operator==(const Table&) const = default;
};

// From every rank to rank 0: it has a session to every other rank.
struct Connected {
  bool operator==(const Connected&) const = default;
};

// From rank 0 to every rank: all have. The run begins.
struct AllConnected {
  bool operator==(const AllConnected&) const = default;
};

// The order is the numbering on the wire, as in Message.
using Meeting = std::variant<Join, Table, Connected, AllConnected>;

}  // namespace ravnest::wire
