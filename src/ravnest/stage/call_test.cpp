#include "ravnest/stage/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace ravnest::stage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

wire::Ready ready_for(std::string call) { return {std::move(call), {}}; }

wire::Account could_not_save(std::string why) { return {{}, std::move(why)}; }

// A root of two stages, all that it was told of its call so far included, up to that phase.
Call root_in(CallPhase phase) {
  Call root(0, 2);
  const std::vector<std::function<void()>> steps = {
      [&] { root.begin(ready_for("train"), 0); },
      [&] {
        ASSERT_TRUE(root.on_ready(1, ready_for("train")).ok());
        root.open();
      },
      [&] { root.finish({.save = true, .run = "a1b2", .epochs = 7}, /*goes_on=*/false); },
      [&] { (void)root.end(5); },
      [&] { (void)root.take_task(); },
      [&] { (void)root.give_account({}); },
  };
  for (int i = 0; i < static_cast<int>(phase); ++i) steps[static_cast<std::size_t>(i)]();
  EXPECT_EQ(root.phase(), phase);
  return root;
}

// The same of another stage, which has computed five passes.
Call other_in(CallPhase phase) {
  Call other(1, 2);
  if (phase >= CallPhase::kReady) other.begin(ready_for("train"), 0);
  if (phase >= CallPhase::kOver) {
    EXPECT_TRUE(other.on_over(0, {5, {}}, 5).ok());
  }
  if (phase >= CallPhase::kTask) (void)other.take_task();
  if (phase >= CallPhase::kAccounted) (void)other.give_account({});
  EXPECT_EQ(other.phase(), phase);
  return other;
}

constexpr CallPhase kAll[] = {CallPhase::kClosed, CallPhase::kReady, CallPhase::kOpen,     CallPhase::kFinishing,
                              CallPhase::kOver,   CallPhase::kTask,  CallPhase::kAccounted};
constexpr CallPhase kOfOthers[] = {CallPhase::kClosed, CallPhase::kReady, CallPhase::kOver, CallPhase::kTask,
                                   CallPhase::kAccounted};

void expect_refused(const Call& call, const std::function<Status(Call&)>& tell, const std::string& why) {
  Call told = call;
  const Status status = tell(told);
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr(why));
  EXPECT_EQ(told, call);
}

TEST(Call, IsOpenedWhenEveryStageIsReady) {
  Call root(0, 3);
  root.begin(ready_for("train"), 0);
  EXPECT_THAT(root.missing(), ElementsAre(1, 2));
  EXPECT_TRUE(root.on_ready(2, ready_for("train")).ok());
  EXPECT_FALSE(root.all_ready());
  EXPECT_TRUE(root.on_ready(1, ready_for("evaluate")).ok());
  EXPECT_TRUE(root.all_ready());
  EXPECT_THAT(root.ready(), ElementsAre(ready_for("train"), ready_for("evaluate"), ready_for("train")));
  root.open();
  EXPECT_EQ(root.phase(), CallPhase::kOpen);
  EXPECT_FALSE(root.all_ready()) << "it is open";
}

TEST(Call, OthersMayBeReadyBeforeTheRoot) {
  Call root(0, 2);
  EXPECT_TRUE(root.on_ready(1, {}).ok());
  EXPECT_FALSE(root.all_ready());
  root.begin({}, 0);
  EXPECT_TRUE(root.all_ready());
}

TEST(Call, WhatIsLeftToDoComesToEveryStageOnce) {
  Call root = root_in(CallPhase::kFinishing);
  const wire::Over over = root.end(5);
  EXPECT_EQ(over, (wire::Over{5, {true, "a1b2", 7}}));
  EXPECT_EQ(root.take_task(), over.task);
  EXPECT_EQ(root.phase(), CallPhase::kTask);

  Call other = other_in(CallPhase::kReady);
  ASSERT_TRUE(other.on_over(0, over, 5).ok());
  EXPECT_EQ(other.take_task(), over.task);
  EXPECT_EQ(other.phase(), CallPhase::kTask);
}

TEST(Call, IsClosedOnceAllGaveAccount) {
  Call root = root_in(CallPhase::kTask);
  EXPECT_EQ(root.account(), nullptr);
  (void)root.give_account(could_not_save("a"));
  EXPECT_FALSE(root.all_accounted());
  EXPECT_TRUE(root.on_account(1, could_not_save("b")).ok());
  EXPECT_TRUE(root.all_accounted());
  EXPECT_THAT(root.accounts(), ElementsAre(could_not_save("a"), could_not_save("b")));
  EXPECT_EQ(*root.account(), could_not_save("a"));
  const wire::Closed closed = root.close({97.5, false, "a and b"});
  EXPECT_EQ(closed, (wire::Closed{97.5, false, "a and b"}));
  EXPECT_EQ(root.closed(), closed);

  Call other = other_in(CallPhase::kAccounted);
  ASSERT_TRUE(other.on_closed(0, closed).ok());
  EXPECT_EQ(other.closed(), closed);
}

TEST(Call, AnAccountMayComeBeforeTheRootHasDoneItsTask) {
  for (const CallPhase phase : {CallPhase::kOver, CallPhase::kTask}) {
    Call root = root_in(phase);
    EXPECT_TRUE(root.on_account(1, {}).ok());
    EXPECT_FALSE(root.all_accounted());
    if (phase == CallPhase::kOver) (void)root.take_task();
    (void)root.give_account({});
    EXPECT_TRUE(root.all_accounted());
  }
}

TEST(Call, TheNextOneStartsFromNothing) {
  Call root(0, 2);
  Call other(1, 2);
  for (std::uint64_t call = 0; call < 3; ++call) {
    root.begin({}, call);
    other.begin({}, call);
    EXPECT_EQ(root.passes_before(), call);
    EXPECT_FALSE(root.closed());
    EXPECT_EQ(root.account(), nullptr);
    EXPECT_THAT(root.missing(), ElementsAre(1));
    ASSERT_TRUE(root.on_ready(1, {}).ok());
    root.open();
    ASSERT_TRUE(other.admits_pass().ok());
    root.finish({}, /*goes_on=*/false);
    ASSERT_TRUE(other.on_over(0, root.end(call + 1), call + 1).ok());
    (void)root.take_task();
    (void)other.take_task();
    (void)root.give_account({});
    ASSERT_TRUE(root.on_account(1, other.give_account({})).ok());
    ASSERT_TRUE(other.on_closed(0, root.close({})).ok());
    EXPECT_EQ(other.phase(), CallPhase::kClosed);
  }
}

TEST(Call, OneStageAloneIsReadyAtOnce) {
  Call alone(0, 1);
  alone.begin({}, 0);
  EXPECT_TRUE(alone.all_ready());
  alone.open();
  alone.finish({}, /*goes_on=*/false);
  (void)alone.end(0);
  (void)alone.take_task();
  (void)alone.give_account({});
  EXPECT_TRUE(alone.all_accounted());
}

void go_through(Call& call, bool trains, bool goes_on) {
  call.open();
  if (trains) call.train();
  call.finish({}, goes_on);
  (void)call.end(0);
  (void)call.take_task();
  (void)call.give_account({});
  EXPECT_EQ(call.close({}).goes_on, goes_on);
}

TEST(Call, ThatGoesOnStillTrainsInTheNextOneAndOnlyThen) {
  for (const bool goes_on : {true, false}) {
    Call call(0, 1);
    call.begin({}, 0);
    EXPECT_FALSE(call.trains());
    go_through(call, /*trains=*/true, goes_on);
    EXPECT_TRUE(call.trains());
    call.begin({}, 0);
    EXPECT_EQ(call.trains(), goes_on);
    EXPECT_FALSE(call.goes_on());
    go_through(call, /*trains=*/false, /*goes_on=*/false);
    call.begin({}, 0, /*trains=*/true);
    EXPECT_TRUE(call.trains());
  }
}

TEST(Call, SentencesAreMadeFitForOneLineByThoseWhoSayThemAndThoseWhoHearThem) {
  const std::string said = "the disk\nis \x1b[2Jfull" + std::string(100'000, 'x');
  Call root = root_in(CallPhase::kTask);
  Call other = other_in(CallPhase::kTask);
  const std::string own = *root.give_account(could_not_save(said)).unsaved;
  EXPECT_LT(own.size(), 20'000U);
  EXPECT_EQ(own.find_first_of("\n\x1b"), std::string::npos);
  EXPECT_EQ(other.give_account(could_not_save(said)).unsaved, own);
  ASSERT_TRUE(root.on_account(1, could_not_save(said)).ok());
  EXPECT_EQ(root.accounts()[1].unsaved, own);
  EXPECT_EQ(root.close({{}, false, said}).unsaved, own);
  ASSERT_TRUE(other.on_closed(0, {{}, false, said}).ok());
  EXPECT_EQ(other.closed()->unsaved, own);
}

// -- what does not fit

TEST(Call, IsEnteredOnceByEachStage) {
  for (const CallPhase phase : kAll) {
    const Call root = root_in(phase);
    const auto tell = [](int from) { return [from](Call& call) { return call.on_ready(from, {}); }; };
    if (phase >= CallPhase::kOpen) expect_refused(root, tell(1), "stage 1 was ready before");
    for (const int nobody : {-1, 0, 2}) expect_refused(root, tell(nobody), "only the root is told");
  }
  for (const CallPhase phase : kOfOthers)
    expect_refused(
        other_in(phase), [](Call& call) { return call.on_ready(0, {}); }, "only the root is told");
}

TEST(Call, IsEndedByTheRootWhenThisStageHasComputedAllPasses) {
  for (const CallPhase phase : kOfOthers) {
    const Call other = other_in(phase);
    expect_refused(
        other,
        [](Call& call) {
          return call.on_over(2, {5, {}}, 5);
        },
        "only the root ends a call");
    if (phase == CallPhase::kReady) {
      for (const std::uint64_t passes : {4, 6}) {
        expect_refused(
            other,
            [&](Call& call) {
              return call.on_over(0, {passes, {}}, 5);
            },
            "but 5 were computed here");
      }
    } else {
      expect_refused(
          other,
          [](Call& call) {
            return call.on_over(0, {5, {}}, 5);
          },
          "not under way here");
    }
  }
  for (const CallPhase phase : kAll)
    expect_refused(
        root_in(phase),
        [](Call& call) {
          return call.on_over(0, {5, {}}, 5);
        },
        "only the root ends");
}

TEST(Call, IsAccountedForOnceWhenItIsOver) {
  for (const CallPhase phase : kAll) {
    Call root = root_in(phase);
    const auto tell = [](int from) { return [from](Call& call) { return call.on_account(from, {}); }; };
    for (const int nobody : {-1, 0, 2}) expect_refused(root, tell(nobody), "gives account of a call");
    if (phase < CallPhase::kOver) {
      expect_refused(root, tell(1), "that is not over");
    } else {
      ASSERT_TRUE(root.on_account(1, {}).ok());
      expect_refused(root, tell(1), "stage 1 gave account before");
    }
  }
  for (const CallPhase phase : kOfOthers)
    expect_refused(
        other_in(phase), [](Call& call) { return call.on_account(0, {}); }, "gives account of a call");
}

TEST(Call, IsClosedByTheRootWhenThisStageGaveAccount) {
  for (const CallPhase phase : kOfOthers) {
    const Call other = other_in(phase);
    expect_refused(
        other, [](Call& call) { return call.on_closed(2, {}); }, "only the root closes a call");
    if (phase != CallPhase::kAccounted)
      expect_refused(
          other, [](Call& call) { return call.on_closed(0, {}); }, "gave no account of");
  }
  for (const CallPhase phase : kAll)
    expect_refused(
        root_in(phase), [](Call& call) { return call.on_closed(0, {}); }, "only the root closes");
}

TEST(Call, APassComesOnlyToAStageThatIsReady) {
  for (const CallPhase phase : kOfOthers) EXPECT_EQ(other_in(phase).admits_pass().ok(), phase == CallPhase::kReady);
  for (const CallPhase phase : kAll) EXPECT_FALSE(root_in(phase).admits_pass().ok());
}

// -- what its owner does

TEST(CallDeathTest, AStepThatIsNotTheNextEndsTheProgram) {
  for (const CallPhase phase : kAll) {
    if (phase > CallPhase::kReady) {
      EXPECT_DEATH(root_in(phase).open(), "not its next");
    }
    if (phase != CallPhase::kOver) {
      EXPECT_DEATH((void)root_in(phase).take_task(), "not its next");
    }
    if (phase != CallPhase::kFinishing) {
      EXPECT_DEATH((void)root_in(phase).end(5), "not its next");
    }
  }
  EXPECT_DEATH(root_in(CallPhase::kOpen).begin({}, 0), "not its next");
  EXPECT_DEATH(root_in(CallPhase::kClosed).train(), "not open");
}

TEST(CallDeathTest, NothingIsOpenedOrClosedWithoutAllStages) {
  Call root(0, 2);
  root.begin({}, 0);
  EXPECT_DEATH(root.open(), "1 stages are not ready");
  EXPECT_DEATH((void)root_in(CallPhase::kAccounted).close({}), "1 accounts of 2");
}

}  // namespace
}  // namespace ravnest::stage
