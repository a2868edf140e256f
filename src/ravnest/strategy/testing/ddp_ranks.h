// For tests: ranks of data parallelism as threads, over a ring in this process. Not part of any library.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "ravnest/strategy/communicate/testing/ring_ranks.h"
#include "ravnest/strategy/ddp.h"
#include "ravnest/worker/testing/whole.h"

namespace ravnest::strategy {

// The rows of a step, by rank; none for a rank that has no batch.
using Batches = std::vector<at::Tensor>;

inline std::int64_t rows_of(const Batches& batches) {
  std::int64_t rows = 0;
  for (const at::Tensor& batch : batches) rows += batch.defined() ? batch.size(0) : 0;
  return rows;
}

inline double weight_of(const Batches& batches, std::size_t rank) {
  return static_cast<double>(batches[rank].size(0)) / static_cast<double>(rows_of(batches));
}

inline wire::PassHead head_of(std::uint64_t step, std::size_t rank, std::size_t world, double weight,
                              bool update = true) {
  return {.pass = step, .step = step * world + rank, .batch = step, .weight = weight, .update = update};
}

struct OfRank {
  OfRank(const ir::Model& model, const std::vector<int>& cuts, Communicator& communicator, DdpOptions options)
      : engine(graph::Engine::create(model).value()),
        ddp(engine, Chain::cut(engine, cuts).value(), communicator, worker::testing::adam(), std::move(options)) {}

  graph::Engine engine;
  Ddp ddp;
};

inline DdpOptions with_criterion() {
  DdpOptions options;
  options.seed = worker::testing::kSeed;
  options.criterion = worker::testing::with_criterion().criterion;
  return options;
}

// Runs `body` for each rank, each on a thread of its own, over a ring.
inline void on_ranks(int world, const ir::Model& model, const std::vector<int>& cuts, const DdpOptions& options,
                     const std::function<void(std::size_t rank, OfRank& own)>& body) {
  RingRanks ranks(std::make_unique<collective::InprocNodes>(rank_names(world)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      OfRank own(model, cuts, ranks.of(rank), options);
      body(static_cast<std::size_t>(rank), own);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline void expect_parameters(const graph::Engine& ours, const graph::Engine& theirs, double tolerance = 0) {
  for (std::size_t i = 0; i < ours.tensors().size(); ++i) {
    const at::Tensor& own = ours.tensors()[i];
    if (!own.requires_grad()) continue;
    const bool same = tolerance == 0 ? at::equal(own, theirs.tensors()[i])
                                     : at::allclose(own, theirs.tensors()[i], tolerance, tolerance);
    EXPECT_TRUE(same) << ours.names()[i];
  }
}

inline std::vector<Batches> steps(std::size_t world, const std::function<at::Tensor()>& batch) {
  at::manual_seed(5);
  std::vector<Batches> all(20);
  for (Batches& step : all) {
    for (std::size_t rank = 0; rank < world; ++rank) step.push_back(batch());
  }
  return all;
}

}  // namespace ravnest::strategy
