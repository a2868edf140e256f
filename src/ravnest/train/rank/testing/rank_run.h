// For tests: ranks as threads of this process, over TLS, in a folder with a model, data and what a run leaves. Not part
// of any library.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/net/testing/free_port.h"
#include "ravnest/train/loop/testing/run.h"
#include "ravnest/train/rank/rank.h"
#include "ravnest/train/rank/rank_trainer.h"

namespace ravnest::train::testing {

// The network of the other tests without dropout, whose masks depend on who computes which rows.
inline ir::Model network_without_dropout() {
  ir::Model model = network();
  model.train.operators[2].inputs[1].value = 0.0;
  return model;
}

class RankRunTest : public RunTest {
 protected:
  RankRunTest() { EXPECT_EQ(ir::write_archive(network_without_dropout(), "model.pt2"), Status()); }

  Result<std::unique_ptr<Rank>> open(int rank, int world, const StrategyOptions& strategy = {},
                                     const std::filesystem::path& model = "model.pt2") const {
    RankOptions options = options_of(rank, world);
    options.strategy = strategy;
    options.model = model;
    return Rank::open(std::move(options), patient());
  }

  RankOptions options_of(int rank, int world) const {
    RankOptions options;
    options.model = "model.pt2";
    options.log = Logger("test", Level::kOff);
    options.rendezvous.place = {.rank = rank,
                                .world = world,
                                .local_rank = rank,
                                .local_world = world,
                                .node = 0,
                                .master = {"127.0.0.1", port_}};
    options.rendezvous.software = "test";
    options.rendezvous.log = options.log;
    return options;
  }

  // The parameters that it ends with.
  Status train(int rank, int world, const TrainConfig& config, std::vector<at::Tensor>* ended = nullptr,
               const StrategyOptions& strategy = {}) const {
    RankOptions options = options_of(rank, world);
    options.strategy = strategy;
    return train(std::move(options), config, ended);
  }

  static Status train(RankOptions options, const TrainConfig& config, std::vector<at::Tensor>* ended = nullptr) {
    auto own = Rank::open(std::move(options), patient());
    if (!own.ok()) return own.status();
    auto trainer = RankTrainer::prepare(**own, config, {});
    if (!trainer.ok()) return trainer.status();
    const auto outcome = trainer->train(patient());
    if (!outcome.ok()) return outcome.status();
    if (ended != nullptr) {
      for (const at::Tensor& tensor : (*own)->engine().tensors()) ended->push_back(tensor.detach().clone());
    }
    (*own)->close();
    return {};
  }

  static std::vector<double> numbers(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istream_iterator<double>(file), std::istream_iterator<double>()};
  }

  const std::uint16_t port_ = free_port();
  std::ostringstream said_;
};

}  // namespace ravnest::train::testing
