// What ends a run on all its ranks, and the sentence that all of them have.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "ravnest/train/rank/testing/rank_run.h"

namespace ravnest::train {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::kBatch;
using ::testing::StartsWith;

class RankFailures : public testing::RankRunTest {
 protected:
  // What all ranks ended with, which has to be the same.
  static std::string sentence(const Play& play, int world) {
    const std::vector<Status> outcomes = at_once(play, world);
    EXPECT_FALSE(outcomes[0].ok());
    EXPECT_THAT(outcomes, Each(outcomes[0]));
    return outcomes[0].message();
  }

  // Of two ranks that train with configs of their own.
  std::string sentence_with(const std::function<void(TrainConfig&)>& change_rank_1) const {
    return sentence(
        [&](int rank) {
          TrainConfig own = config("epochs = 1");
          if (rank == 1) change_rank_1(own);
          return train(rank, 2, own);
        },
        2);
  }

  std::string sentence_with(const std::function<void(StrategyOptions&)>& change_rank_1) const {
    return sentence(
        [&](int rank) {
          StrategyOptions own;
          if (rank == 1) change_rank_1(own);
          return train(rank, 2, config("epochs = 1"), nullptr, own);
        },
        2);
  }

  // A loop of the user's own, with that criterion, which feeds `batches_of(rank)` batches.
  std::string sentence_of_loops(const std::function<worker::Criterion(int rank)>& criterion_of,
                                const std::function<int(int rank)>& batches_of, int world) const {
    return sentence(
        [&](int rank) -> Status {
          auto own = open(rank, world);
          if (!own.ok()) return own.status();
          TrainingOptions options;
          options.optimizer = std::move(*optim::make_optimizer("SGD", {{"lr", 0.01}}));
          options.criterion = criterion_of(rank);
          if (Status done = (*own)->configure(std::move(options)); !done.ok()) return done;
          if (Status begun = (*own)->begin("train", patient()); !begun.ok()) return begun;
          Position position;
          Feeder feeder(**own, position, patient());
          for (int i = 0; i < batches_of(rank); ++i) {
            if (Status fed = feeder.train({{testing::inputs().slice(0, 0, kBatch)}, 0}); !fed.ok()) return fed;
          }
          return (*own)->finish({false, "", 1}, patient());
        },
        world);
  }

  static worker::Criterion with_loss(const std::function<at::Tensor(const at::Tensor&)>& loss) {
    return [loss](const wire::PassHead&, const std::vector<c10::IValue>& outputs) {
      return worker::CriterionResult{loss(outputs.at(0).toTensor()), kBatch, 0};
    };
  }
  static at::Tensor squared(const at::Tensor& y) { return y.square().mean(); }
};

TEST_F(RankFailures, RanksThatTrainDifferentlyAllReadInWhat) {
  using Config = TrainConfig;
  EXPECT_EQ(sentence_with([](Config& own) { own.epochs = 4; }),
            "epochs is 1 on rank_0 and 4 on rank_1: start the same script on every rank");
  EXPECT_THAT(sentence_with([](Config& own) { own.clip_norm = 0.5; }), HasSubstr("clip_norm is 0 on rank_0 and 0.5"));
  EXPECT_THAT(sentence_with([](Config& own) { own.clip_value = 2; }), HasSubstr("clip_value is 0 on rank_0 and 2"));
  EXPECT_THAT(sentence_with([](Config& own) { own.val_freq = 3; }), HasSubstr("val_freq is 1 on rank_0 and 3"));
  EXPECT_THAT(sentence_with([](Config& own) { own.save = false; }), HasSubstr("save is true on rank_0 and false"));
  EXPECT_THAT(sentence_with([](Config& own) { own.loss = LossKind::kNll; }),
              HasSubstr("loss is cross_entropy on rank_0 and nll on rank_1"));
  EXPECT_THAT(sentence_with([](Config& own) { own.optimizer.options["lr"] = 0.02; }), HasSubstr("lr 0.02"));
}

TEST_F(RankFailures, RanksThatWereStartedDifferentlyAllReadInWhat) {
  using Strategy = StrategyOptions;
  EXPECT_EQ(sentence_with([](Strategy& own) { own.units.rule = graph::UnitRule::kBlocks; }),
            "rank 1 (127.0.0.1) was started with units blocks, and rank 0 with size: start all ranks with the same");
  EXPECT_THAT(sentence_with([](Strategy& own) { own.broadcast_buffers = false; }),
              HasSubstr("was started with broadcast_buffers false, and rank 0 with true"));
  EXPECT_THAT(sentence_with([](Strategy& own) { own.backend = Backend::kRing; }),
              HasSubstr("was started with backend ring, and rank 0 with auto"));
  EXPECT_THAT(sentence_with([](Strategy& own) { own.precision = strategy::Precision::kBf16; }),
              HasSubstr("was started with precision bf16, and rank 0 with float32"));
}

TEST_F(RankFailures, ARankThatCannotReadItsModelIsTheSentenceOfAll) {
  for (const int failed : {0, 2}) {
    const auto play = [&](int rank) {
      return open(rank, 3, {}, rank == failed ? "no_model.pt2" : "model.pt2").status();
    };
    EXPECT_THAT(sentence(play, 3), StartsWith(text("rank ", failed, " (127.0.0.1) failed: cannot open no_model.pt2")));
  }
  const Status alone = open(0, 1, {}, "no_model.pt2").status();
  EXPECT_THAT(alone.message(), StartsWith("cannot open no_model.pt2")) << "nobody is to be told";
}

TEST_F(RankFailures, ARankWithoutADeviceIsTheSentenceOfAll) {
  const auto outcome = sentence(
      [&](int rank) {
        RankOptions options = options_of(rank, 2);
        if (rank == 1) options.device = c10::Device("cuda:0");
        return Rank::open(options, patient()).status();
      },
      2);
  EXPECT_THAT(outcome, StartsWith("rank 1 (127.0.0.1) failed: device = \"cuda:0\" is one GPU, and the 2 ranks"));
}

TEST_F(RankFailures, WhatOneRankThrowsIsTheSentenceOfAll) {
  const auto criterion_of = [](int rank) {
    return with_loss([rank](const at::Tensor& y) -> at::Tensor {
      if (rank == 1) throw std::runtime_error("the criterion raised ValueError: no such class");
      return squared(y);
    });
  };
  EXPECT_EQ(sentence_of_loops(
                criterion_of, [](int) { return 3; }, 3),
            "rank 1 (127.0.0.1) failed: the criterion raised ValueError: no such class");
}

TEST_F(RankFailures, ARankWithoutMemorySaysWhatWasAskedForWhatThereIsAndWhatHelps) {
  const auto criterion_of = [](int rank) {
    return with_loss([rank](const at::Tensor& y) -> at::Tensor {
      TORCH_CHECK_WITH(OutOfMemoryError, rank != 1,
                       "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.15 GiB of "
                       "which 12.38 GiB is free. Process 7 has 66.77 GiB memory in use.");
      return squared(y);
    });
  };
  EXPECT_EQ(sentence_of_loops(
                criterion_of, [](int) { return 3; }, 2),
            "rank 1 (127.0.0.1) failed: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of "
            "79.15 GiB of which 12.38 GiB is free. What helps: a smaller batch_size, with update_frequency for as many "
            "samples in an update, or precision = \"bf16\"");
}

TEST_F(RankFailures, ALossThatIsNoNumberIsAllRanksReasonWithItsRankAndStep) {
  const auto outcome = sentence(
      [&](int rank) -> Status {
        auto own = open(rank, 2);
        if (!own.ok()) return own.status();
        auto trainer = RankTrainer::prepare(**own, config("epochs = 2\nstop_at_nan = true"), {});
        if (!trainer.ok()) return trainer.status();
        Poll spoil = [&, calls = 0]() mutable -> Status {
          const at::NoGradGuard without_record;
          if (++calls == 2) (*own)->engine().tensors()[0].fill_(std::nan(""));
          return {};
        };
        return trainer->train(rank == 1 ? spoil : patient()).status();
      },
      2);
  EXPECT_THAT(outcome, HasSubstr("the loss that rank_1 computed in step "));
  EXPECT_THAT(outcome, HasSubstr(" is nan, and stop_at_nan ends the run there"));
  EXPECT_EQ(outcome.find("failed"), std::string::npos) << "it is nobody's failure: " << outcome;
}

TEST_F(RankFailures, ALoopThatFeedsARankFewerBatchesEndsAllWithWhoDoesWhat) {
  const auto all_alike = [](int) { return with_loss(squared); };
  EXPECT_EQ(sentence_of_loops(
                all_alike, [](int rank) { return rank == 1 ? 2 : 4; }, 3),
            "2 ranks feed a batch while one rank has ended its call: every rank has to do the same, with as many "
            "batches; Trainer.train() sees to that by itself");
}

TEST_F(RankFailures, RanksAtDifferentPlacesOfTheirEpochsDoNotTrain) {
  const auto outcome = sentence(
      [&](int rank) -> Status {
        auto own = open(rank, 2);
        if (!own.ok()) return own.status();
        auto trainer = RankTrainer::prepare(**own, config("epochs = 1"), {});
        if (!trainer.ok()) return trainer.status();
        if (Status begun = (*own)->begin("train", patient()); !begun.ok()) return begun;
        Position position;
        Feeder feeder(**own, position, patient());
        for (int epoch = 0; epoch < 2; ++epoch) {
          for (int i = 0; i < (rank == 1 && epoch == 0 ? 1 : 2); ++i) {
            Status fed = feeder.train({{testing::inputs().slice(0, 0, i == 0 ? kBatch : kBatch - 1)}, 0});
            if (!fed.ok()) return fed;
          }
          feeder.end_epoch();
        }
        return {};
      },
      2);
  EXPECT_THAT(outcome, HasSubstr("the ranks feed batches of different places"));
}

TEST_F(RankFailures, CompressionDoesNotGoWithFp16) {
  StrategyOptions strategy;
  strategy.precision = strategy::Precision::kFp16;
  EXPECT_THAT(train(0, 1, config("epochs = 1\ncompression = \"int8\""), nullptr, strategy).message(),
              HasSubstr("compression \"int8\" does not go with precision \"fp16\""));
}

TEST_F(RankFailures, ParametersThatHaveComeApartAreSavedByNobody) {
  const auto outcome = sentence(
      [&](int rank) -> Status {
        auto own = open(rank, 2);
        if (!own.ok()) return own.status();
        auto trainer = RankTrainer::prepare(**own, config("epochs = 1"), {});
        if (!trainer.ok()) return trainer.status();
        Poll nudge = [&, calls = 0]() mutable -> Status {
          const at::NoGradGuard without_record;
          if (rank == 1 && ++calls == 3) (*own)->engine().tensors()[0].add_(1);
          return {};
        };
        return trainer->train(nudge).status();
      },
      2);
  EXPECT_THAT(outcome, HasSubstr("the parameters of rank_1 are not those of rank_0 any more"));
  EXPECT_FALSE(std::filesystem::exists("trained/trained_state_dict.pt"));
}

TEST_F(RankFailures, AModelThatCanNotBeSavedIsAFailureOfAllRanks) {
  std::ofstream("trained") << "a file where the folder would be";
  EXPECT_THAT(sentence([&](int rank) { return train(rank, 2, config("epochs = 1")); }, 2),
              HasSubstr("rank 0 (127.0.0.1) could not save the model: "));
}

TEST_F(RankFailures, WhatOneRankIsStoppedForEndsAllWithItsSentence) {
  EXPECT_EQ(sentence(
                [&](int rank) -> Status {
                  auto own = open(rank, 3);
                  if (!own.ok()) return own.status();
                  if (rank == 1) return (*own)->stop({"failed: its cat sat on the keyboard"});
                  auto trainer = RankTrainer::prepare(**own, config("epochs = 1000"), {});
                  return trainer.ok() ? trainer->train(patient()).status() : trainer.status();
                },
                3),
            "rank 1 (127.0.0.1) failed: its cat sat on the keyboard");
}

}  // namespace
}  // namespace ravnest::train
