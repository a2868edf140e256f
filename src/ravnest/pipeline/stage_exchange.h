// What a stage exchanges in one attempt of a round: with each strand's members one vector or more.
//
// It makes messages and takes them; whoever owns it sends them. An attempt that is given up is dropped whole. Not
// thread-safe; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/collective/council.h"
#include "ravnest/collective/exchange.h"
#include "ravnest/transport/buffers.h"
#include "ravnest/wire/codec.h"
#include "ravnest/wire/error_feedback.h"

namespace ravnest::pipeline {

// A strand that the stage is a member of (plan/strands.h).
struct StrandPlace {
  std::uint32_t number = 0;
  std::vector<std::string> nodes;  // by cluster

  bool operator==(const StrandPlace&) const = default;
};

// One vector of a strand. Members know it by the number, which no two of one stage share.
struct ExchangePart {
  std::size_t strand = 0;  // among the stage's
  std::uint32_t number = 0;
  std::vector<float> values;  // the own ones, then the weighted mean of all
  wire::Codec codec = {};
  wire::ErrorFeedback* residual = nullptr;
};

class StageExchange {
 public:
  struct Letter {
    std::string to;
    wire::RingChunk chunk;
  };
  using Letters = std::vector<Letter>;

  // Of the stage of cluster `cluster`, which has a seat. `strands` and `pool` outlive it.
  StageExchange(const collective::Attempt& attempt, int cluster, const std::vector<StrandPlace>& strands,
                std::vector<ExchangePart> parts, transport::BufferPool& pool);

  // To be called once.
  Result<Letters> start();
  // Of this attempt. What is doubled or not from a member that sends here is ignored and counted. kCorrupt where the
  // members do not exchange the same.
  Result<Letters> on_chunk(const std::string& from, wire::RingChunk chunk);
  bool complete() const;

  std::uint64_t attempt() const { return attempt_; }
  // The clusters and nodes whose loss means that it can not be completed.
  const std::vector<std::pair<int, std::string>>& neighbours() const { return neighbours_; }
  std::uint64_t ignored() const;
  // When complete.
  std::vector<ExchangePart> take_parts() { return std::move(parts_); }

 private:
  struct Running {
    collective::Exchange<float> exchange;
    std::string previous;
    std::string next;
  };

  Status begin_more(Running& running, std::size_t most, Letters& letters);

  const std::uint64_t attempt_;
  std::vector<ExchangePart> parts_;
  std::vector<std::unique_ptr<Running>> running_;  // by part
  std::vector<std::pair<int, std::string>> neighbours_;
  std::uint64_t ignored_ = 0;
};

}  // namespace ravnest::pipeline
