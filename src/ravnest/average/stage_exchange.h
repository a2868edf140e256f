// What a stage exchanges in one attempt of a round: with each averaging group's members one vector or more.
//
// Whoever owns it receives, and drives it like a RingDriver (collective/ring_driver.h). An attempt that is given up is
// dropped whole. Not thread-safe; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/average/agreement.h"
#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/codec/error_feedback.h"
#include "ravnest/collective/ring_driver.h"

namespace ravnest::average {

// An averaging group that the stage is a member of (plan/averaging_groups.h).
struct AveragingPlace {
  std::uint32_t number = 0;
  std::vector<std::string> nodes;  // by cluster

  bool operator==(const AveragingPlace&) const = default;
};

// One vector of an averaging group. Members know it by the number, which no two of one stage share.
struct ExchangePart {
  std::size_t averaging_group = 0;  // among the stage's
  std::uint32_t number = 0;
  std::vector<float> values;  // the own ones, then the weighted mean of all
  codec::Codec codec = {};
  codec::ErrorFeedback* residual = nullptr;
};

class StageExchange {
 public:
  // Of the stage of cluster `cluster`, which has a participant. `driver` has no operations yet.
  StageExchange(const Attempt& attempt, int cluster, const std::vector<AveragingPlace>& averaging_groups,
                std::vector<ExchangePart> parts, collective::RingDriver<float> driver);

  bool may_begin() const { return driver_.may_begin(); }
  Status begin() { return driver_.begin(); }
  // Of this attempt. What is doubled or not from a member that sends here is ignored and counted. kCorrupt where the
  // members do not exchange the same.
  Status on_chunk(const std::string& from, wire::RingChunk chunk);
  bool complete() const { return driver_.complete(); }

  std::uint64_t attempt() const { return attempt_; }
  // The clusters and nodes whose loss means that it can not be completed.
  const std::vector<std::pair<int, std::string>>& neighbours() const { return neighbours_; }
  std::uint64_t ignored() const { return driver_.ignored(); }
  std::uint64_t bytes_sent() const { return driver_.bytes_sent(); }
  // When complete.
  std::vector<ExchangePart> take_parts() { return std::move(parts_); }

 private:
  const std::uint64_t attempt_;
  std::vector<ExchangePart> parts_;
  collective::RingDriver<float> driver_;
  std::vector<std::pair<int, std::string>> neighbours_;
};

}  // namespace ravnest::average
