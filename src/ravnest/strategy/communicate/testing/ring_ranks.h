// Ring communicators of one process, over endpoints of any kind.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/collective/testing/group.h"
#include "ravnest/strategy/communicate/ring_communicator.h"
#include "ravnest/strategy/communicate/testing/ranks.h"

namespace ravnest::strategy {

inline std::vector<std::string> rank_names(int world) {
  std::vector<std::string> names;
  for (int rank = 0; rank < world; ++rank) names.push_back("rank_" + std::to_string(rank));
  return names;
}

class RingRanks final : public LocalRanks {
 public:
  explicit RingRanks(std::unique_ptr<collective::Nodes> nodes, at::Device device = at::kCPU)
      : nodes_(std::move(nodes)), device_(device), endpoints_(nodes_->open_all()) {
    for (const auto& endpoint : endpoints_) {
      EXPECT_TRUE(collective::has_all_up(*endpoint, endpoints_.size() - 1)) << endpoint->name();
    }
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
      communicators_.push_back(std::make_unique<RingCommunicator>(*endpoints_[i], nodes_->names, static_cast<int>(i)));
    }
  }

  Communicator& of(int rank) override { return *communicators_[static_cast<std::size_t>(rank)]; }
  void close(int rank) override { communicators_[static_cast<std::size_t>(rank)].reset(); }
  void lose(int rank) override {
    close(rank);
    auto& endpoint = endpoints_[static_cast<std::size_t>(rank)];
    endpoint.reset();
    // The one that comes in its place knows nothing of the run, which is how the others notice at once.
    endpoint = nodes_->open(static_cast<std::size_t>(rank));
  }
  at::Device device(int /*rank*/) const override { return device_; }

 private:
  const std::unique_ptr<collective::Nodes> nodes_;
  const at::Device device_;
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints_;
  std::vector<std::unique_ptr<RingCommunicator>> communicators_;
};

}  // namespace ravnest::strategy
