// Ranks that go on from a checkpoint: with the numbers of a run that was never ended.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "ravnest/checkpoint/folder.h"
#include "ravnest/train/rank/testing/rank_run.h"

namespace ravnest::train {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::kBatch;
using ::testing::Pointwise;
namespace fs = std::filesystem;

using Tensors = std::vector<at::Tensor>;

class RankCheckpoints : public testing::RankRunTest {
 protected:
  // A run of checkpoints in their own folder, all of which stay.
  TrainConfig kept(const std::string& every, int epochs, const std::string& more = "",
                   const std::string& folder = "checkpoints") const {
    TrainConfig own = config(text("epochs = ", epochs, "\n", more, "\n[checkpoint]\nfolder = \"", folder,
                                  "\"\nkeep = 0\nevery = \"", every, "\"\n"));
    return own;
  }
  static TrainConfig resumed(TrainConfig config, const std::string& which) {
    config.checkpoint->resume = which;
    return config;
  }

  // What rank 0 ends with; all end with the same.
  Tensors trained(int world, const TrainConfig& config, const std::filesystem::path& model = "model.pt2",
                  const StrategyOptions& strategy = {}) const {
    std::vector<Tensors> ended(static_cast<std::size_t>(world));
    const auto outcomes = at_once(
        [&](int rank) {
          RankOptions options = options_of(rank, world);
          options.model = model;
          options.strategy = strategy;
          return train(std::move(options), config, &ended[static_cast<std::size_t>(rank)]);
        },
        world);
    EXPECT_THAT(outcomes, Each(Status()));
    for (const Tensors& each : ended) expect_equal(each, ended[0]);
    return ended[0];
  }

  std::string sentence(int world, const std::function<TrainConfig(int rank)>& config_of,
                       const std::filesystem::path& model = "model.pt2") const {
    const auto outcomes = at_once(
        [&](int rank) {
          RankOptions options = options_of(rank, world);
          options.model = model;
          return train(std::move(options), config_of(rank));
        },
        world);
    EXPECT_FALSE(outcomes[0].ok());
    EXPECT_THAT(outcomes, Each(outcomes[0]));
    return outcomes[0].message();
  }

  static void expect_equal(const Tensors& one, const Tensors& other) {
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], other[i])) << i;
  }
  static void expect_close(const Tensors& one, const Tensors& other) {
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::allclose(one[i], other[i], 1e-6, 1e-6)) << i;
  }
  static std::string content(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Three steps of two ranks: one epoch, and half of the second.
  static constexpr const char* kInTheMiddle = "3";
};

// With dropout, a schedule, gradients that add up, and whatever the precision.
TEST_F(RankCheckpoints, ARunGoesOnToTheBit) {
  ASSERT_EQ(ir::write_archive(testing::network(), "dropping.pt2"), Status());
  const std::string schedule =
      "\n[lr_schedule]\nname = \"OneCycleLR\"\nmax_lr = 0.05\ntotal_steps = 20\nevery = \"update\"";
  struct Case {
    std::string name, more;
    strategy::Precision precision = strategy::Precision::kFloat32;
  };
  for (const Case& each :
       {Case{"plain", ""}, Case{"scheduled", schedule}, Case{"clipped", "clip_norm = 0.1\nval_freq = 3"},
        Case{"fp16", "", strategy::Precision::kFp16}}) {
    SCOPED_TRACE(each.name);
    StrategyOptions strategy;
    strategy.precision = each.precision;
    const std::string folder = text("of_", each.name);
    const TrainConfig whole = kept("3 updates", 4, each.more, folder);
    const Tensors expected = trained(2, whole, "dropping.pt2", strategy);
    const std::string losses = content("losses.txt");
    const std::string accuracies = content("val_accuracies.txt");
    expect_equal(trained(2, resumed(whole, kInTheMiddle), "dropping.pt2", strategy), expected);
    EXPECT_EQ(content("losses.txt"), losses);
    EXPECT_EQ(content("val_accuracies.txt"), accuracies);
    EXPECT_FALSE(fs::exists("losses.txt.1"));
    fs::remove("losses.txt");
    fs::remove("val_accuracies.txt");
  }
}

TEST_F(RankCheckpoints, AnEpochThatEndsBetweenUpdatesGoesOnAsItWould) {
  for (const int world : {1, 2}) {
    SCOPED_TRACE(world);
    const std::string folder = text("of_", world);
    const TrainConfig whole = kept("epoch", 4, "update_frequency = 3", folder);
    const Tensors expected = trained(world, whole);
    const std::string losses = content("losses.txt");
    const auto all = checkpoint::list_checkpoints(folder).value().complete;
    const auto waiting =
        std::ranges::find_if(all, [](const auto& each) { return each.manifest.position.trained % 3 != 0; });
    ASSERT_NE(waiting, all.end());
    const Tensors again = trained(world, resumed(whole, std::to_string(waiting->manifest.updates)));
    if (world == 1)
      expect_equal(again, expected);
    else
      expect_close(again, expected);
    EXPECT_EQ(content("losses.txt"), losses);
    fs::remove("losses.txt");
    fs::remove("val_accuracies.txt");
  }
}

TEST_F(RankCheckpoints, AnotherNumberOfRanksGoesOnWhereTheSamplesAre) {
  const TrainConfig two = kept("3 updates", 4);
  const Tensors expected = trained(2, two);
  const std::vector<double> losses = numbers("losses.txt");
  for (const int world : {1, 4}) {
    SCOPED_TRACE(world);
    TrainConfig other = resumed(two, kInTheMiddle);
    other.batch_size = 2 * kBatch / world;
    expect_close(trained(world, other), expected);
    EXPECT_THAT(numbers("losses.txt"), Pointwise(DoubleNear(2e-4), losses));
  }
}

TEST_F(RankCheckpoints, WhereAStepBeginsElsewhereNoSampleIsLeftOutAndALineSaysWhichComeTwice) {
  const TrainConfig two = kept("3 updates", 4);
  trained(2, two);
  TrainConfig larger = resumed(two, kInTheMiddle);
  larger.batch_size = 24;
  larger.epochs = 2;
  std::ostringstream said;
  report::Progress progress(said);
  auto own = Rank::open(options_of(0, 1), patient());
  ASSERT_TRUE(own.ok()) << own.status();
  auto trainer = RankTrainer::prepare(**own, larger, {.progress = &progress});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto outcome = trainer->train(patient());
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(said.str(), HasSubstr("the checkpoint is 16 samples into epoch 2, and a step takes 24 now, where it took "
                                    "16: the run goes on with the step of samples 1 to 24, of which the first 16 were "
                                    "trained on before"));
  EXPECT_EQ(numbers("losses.txt").size(), 3U + 2U);
}

TEST_F(RankCheckpoints, KeysOfRandomNumbersComeOnceInAllWorlds) {
  trained(2, kept("3 updates", 2));
  const auto position = [](const std::string& which) {
    return checkpoint::find_checkpoint("checkpoints", which).value().manifest.position;
  };
  EXPECT_EQ(position("3").passes, 6U);
  trained(4, resumed(kept("3 updates", 3), "3"));
  // Of four ranks pass 2 is the first whose keys, from 8 on, are all new.
  EXPECT_EQ(position("newest").passes % 4, 0U);
  EXPECT_GE(position("newest").passes, 8U + 4U);
}

TEST_F(RankCheckpoints, TheBestAndTheNewestStay) {
  TrainConfig own = kept("epoch", 4);
  own.checkpoint->keep = 1;
  own.checkpoint->best = true;
  trained(2, own);
  const auto listing = checkpoint::list_checkpoints("checkpoints").value().complete;
  ASSERT_GE(listing.size(), 1U);
  ASSERT_LE(listing.size(), 2U);
  EXPECT_EQ(listing[0].manifest.updates, 8U);
  EXPECT_EQ(listing[0].manifest.strategy, "ddp");
  EXPECT_EQ(listing[0].manifest.world, 2U);
  for (const auto& each : listing) EXPECT_TRUE(each.manifest.accuracy);
  trained(2, resumed(own, "best"));
}

TEST_F(RankCheckpoints, WithNothingThereTheRunBeginsAnewUnlessOneWasNamed) {
  trained(2, resumed(kept("epoch", 1), "newest"));
  const auto from = [&](const std::string& which) {
    return sentence(2, [&](int) { return resumed(kept("epoch", 1), which); });
  };
  EXPECT_THAT(from("12345"), HasSubstr("no checkpoint of update 12345 in checkpoints: there is that of update 2"));
  EXPECT_THAT(from("elsewhere/update_000000002"), HasSubstr("there is no checkpoint elsewhere/update_000000002"));
}

TEST_F(RankCheckpoints, OfAnotherModelOrOptimizerTheFirstDifferenceIsNamed) {
  trained(2, kept("epoch", 1));
  TrainConfig own = resumed(kept("epoch", 2), "newest");
  own.optimizer.name = "SGD";
  EXPECT_THAT(sentence(2, [&](int) { return own; }),
              HasSubstr("the checkpoint is of a run with the optimizer Adam, this one has SGD: go on with the same"));
  ir::Model other = testing::network_without_dropout();
  other.weights[1].first = "middle.weight";
  for (ir::Graph* graph : {&other.train, &other.eval}) {
    for (ir::Input& input : graph->inputs) {
      if (input.target == "second.weight") input.target = "middle.weight";
    }
  }
  ASSERT_EQ(ir::write_archive(other, "other.pt2"), Status());
  EXPECT_THAT(sentence(
                  2, [&](int) { return resumed(kept("epoch", 2), "newest"); }, "other.pt2"),
              HasSubstr("the checkpoint has no weight \"middle.weight\": it is of another model"));
}

TEST_F(RankCheckpoints, ATornPartIsPassedOverForTheOneBefore) {
  const TrainConfig own = kept("epoch", 2);
  trained(2, own);
  const auto newest = checkpoint::find_checkpoint("checkpoints", "newest").value();
  const fs::path part = newest.folder / "model.safetensors";
  fs::resize_file(part, fs::file_size(part) - 64);
  trained(2, resumed(own, "newest"));
  EXPECT_EQ(numbers("losses.txt").size(), 4U);
}

TEST_F(RankCheckpoints, RanksThatGoOnDifferentlyAllReadInWhat) {
  EXPECT_EQ(sentence(2, [&](int rank) { return rank == 0 ? kept("epoch", 1) : resumed(kept("epoch", 1), "newest"); }),
            "resume is none on rank_0 and newest on rank_1: start the same script on every rank");
  EXPECT_EQ(sentence(2, [&](int rank) { return rank == 0 ? kept("epoch", 1) : config("epochs = 1"); }),
            "checkpoint is checkpoints on rank_0 and none on rank_1: start the same script on every rank");
}

TEST_F(RankCheckpoints, ARankThatIsToldToEndEndsAllAfterACheckpoint) {
  const TrainConfig whole = kept("epoch", 3, "update_frequency = 2");
  const Tensors expected = trained(2, whole);
  fs::remove_all("checkpoints");
  const auto outcomes = at_once(
      [&](int rank) -> Status {
        auto own = Rank::open(options_of(rank, 2), patient());
        if (!own.ok()) return own.status();
        auto trainer = RankTrainer::prepare(**own, whole, {});
        if (!trainer.ok()) return trainer.status();
        const Poll until = patient();
        bool asked = false;
        const auto outcome = trainer->train([&]() -> Status {
          if (rank == 1 && !asked) asked = (*own)->want_end("got SIGTERM");
          return until();
        });
        if (!outcome.ok()) return outcome.status();
        const auto last = checkpoint::find_checkpoint("checkpoints", "newest").value().manifest;
        EXPECT_EQ(outcome->ended_early,
                  text("rank_1 got SIGTERM: the run ends after the checkpoint of update ", last.updates));
        EXPECT_LT(last.updates, 6U);
        EXPECT_EQ(last.position.trained % 2, 0U) << "in the middle of an update";
        (*own)->close();
        return {};
      },
      2);
  EXPECT_THAT(outcomes, Each(Status()));
  expect_equal(trained(2, resumed(whole, "newest")), expected);
}

}  // namespace
}  // namespace ravnest::train
